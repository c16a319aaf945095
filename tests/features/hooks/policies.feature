Feature: What a hook's failure, or its refusal, does to a loop

  Background:
    Given a project in a git repository
    And an agent that in its iterations:
      | iteration | does      | what           | more                   |
      | 1         | publishes | plan.ready     | {"steps": 2}           |
      | 1         | publishes | human.interact | {"question": "Go on?"} |
      | 2         | publishes | LOOP_COMPLETE  |                        |
    And the loop's settings:
      """
      answer_timeout_seconds: 0.2
      """

  @AC-08
  Scenario: A hook that may only warn fails, and the loop goes on
    Given the hook script "hooks/fails.sh":
      """
      note "$TENTER_HOOK_PHASE_EVENT fails"
      echo "the tracker is down" >&2
      exit 7
      """
    And the hooks:
      """
      pre.iteration.start:
        - {name: tracker, command: [./hooks/fails.sh], on_error: warn}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 0 because of "completed"
    And the timeline is:
      """
      pre.iteration.start fails
      agent 1
      pre.iteration.start fails
      agent 2
      """
    And the telemetry of "tracker" is:
      | exit_code | disposition | stderr                  |
      | 7         | "warn"      | "the tracker is down\\n" |
      | 7         | "warn"      | "the tracker is down\\n" |

  @AC-09
  Scenario: A hook that may block fails: the step does not happen, and the reason is told
    Given the hook script "hooks/fails.sh":
      """
      echo "no ticket is linked" >&2
      exit 7
      """
    And the hooks:
      """
      pre.iteration.start:
        - {name: ticket, command: [./hooks/fails.sh], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 1 because of "blocked"
    And the agent ran 0 times
    And its message has "ticket"
    And its message has "no ticket is linked"
    And standard error has "no ticket is linked"
    And the list of loops shows it as "failed" because of "blocked"
    And the telemetry of "ticket" is:
      | exit_code | disposition |
      | 7         | "block"     |

  @LS-03
  Scenario Outline: A Block at <boundary> ends the loop, and loop.error sees why
    Given the hook script "hooks/blocks.sh":
      """
      note "blocked"
      echo '{"decision": "block", "reason": "not at this boundary"}'
      """
    And the hook script "hooks/sees.sh":
      """
      note "$TENTER_HOOK_PHASE_EVENT"
      keep "$TENTER_HOOK_PHASE_EVENT"
      """
    And the hooks:
      """
      <boundary>:
        - {name: blocks, command: [./hooks/blocks.sh], verdict: json, on_error: warn}
      pre.loop.error:
        - {name: sees, command: [./hooks/sees.sh], on_error: warn}
      post.loop.error:
        - {name: sees, command: [./hooks/sees.sh], on_error: warn}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 1 because of "blocked"
    And its message has "not at this boundary"
    And the agent ran <agent> times
    And the timeline ends with:
      """
      blocked
      pre.loop.error
      post.loop.error
      """
    And before and after the work of "loop.error" the context's "termination_reason" is:
      | before    | after     |
      | "blocked" | "blocked" |

    Examples:
      | boundary             | agent |
      | pre.loop.start       | 0     |
      | post.loop.start      | 0     |
      | pre.iteration.start  | 0     |
      | post.iteration.start | 0     |
      | post.plan.created    | 1     |
      | post.human.interact  | 1     |
      | pre.loop.complete    | 2     |
      | post.loop.complete   | 2     |

  @LS-04
  Scenario Outline: A Block at <boundary> refuses what the agent asked for, and the agent is told
    Given the hook script "hooks/blocks.sh":
      """
      echo '{"decision": "block", "reason": "not in this project"}'
      """
    And the hook script "hooks/sees.sh":
      """
      note "$TENTER_HOOK_PHASE_EVENT"
      """
    And the hooks:
      """
      <boundary>:
        - {name: blocks, command: [./hooks/blocks.sh], verdict: json, on_error: warn}
      <other side>:
        - {name: sees, command: [./hooks/sees.sh], on_error: warn}
      pre.loop.error:
        - {name: sees, command: [./hooks/sees.sh], on_error: warn}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 0 because of "completed"
    And the timeline is:
      """
      agent 1
      agent 2
      """
    And the prompt of iteration 2 has "not in this project"
    And the prompt of iteration 2 tells of the event "<other event>" and not of "<refused event>"

    Examples:
      | boundary           | other side          | refused event  | other event    |
      | pre.plan.created   | post.plan.created   | plan.ready     | human.response |
      | pre.human.interact | post.human.interact | human.response | plan.ready     |

  @LS-05
  Scenario Outline: A Block at <boundary> changes nothing more
    Given the hook script "hooks/blocks.sh":
      """
      note "blocked"
      echo '{"decision": "block", "reason": "not at this boundary"}'
      """
    And the hooks:
      """
      <boundary>:
        - {name: blocks, command: [./hooks/blocks.sh], verdict: json, on_error: warn}
      """
    And the owner commits and trusts the project
    When the loop runs with "--max-iterations 1"
    Then it ended with exit code 2 because of "max_iterations"
    And the timeline is:
      """
      agent 1
      blocked
      """

    Examples:
      | boundary        |
      | pre.loop.error  |
      | post.loop.error |
