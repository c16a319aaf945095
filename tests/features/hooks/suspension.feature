Feature: A hook suspends a loop, and an operator resumes it

  Background:
    Given a project in a git repository
    And an agent that in its iterations:
      | iteration | does      | what          | more |
      | 2         | publishes | LOOP_COMPLETE |      |
    And the hook script "hooks/note.sh":
      """
      note "$TENTER_HOOK_PHASE_EVENT"
      """
    And the hook script "hooks/gate.sh":
      """
      note "gate"
      [ "$TENTER_ITERATION" = 1 ] || exit 0
      echo "operator approval required" >&2
      exit 1
      """
    And the hooks:
      """
      pre.loop.start:
        - {name: note, command: [./hooks/note.sh], on_error: block}
      pre.iteration.start:
        - {name: manual-gate, command: [./hooks/gate.sh], on_error: suspend}
        - {name: note, command: [./hooks/note.sh], on_error: block}
      post.iteration.start:
        - {name: note, command: [./hooks/note.sh], on_error: block}
      pre.loop.error:
        - {name: note, command: [./hooks/note.sh], on_error: warn}
      """

  @AC-10
  Scenario: A hook with "on_error: suspend" and no mode fails, and the loop waits for a resume
    Given the owner commits and trusts the project
    When the loop is started
    And it is suspended
    Then its state file has exactly these keys of the contract, and more of its own:
      """
      {
        "schema_version": 1, "state": "suspended", "loop_id": "{id}", "phase_event": "pre.iteration.start",
        "hook_name": "manual-gate", "suspend_mode": "wait_for_resume"
      }
      """
    And its state file's "reason" has "operator approval required"
    And its state file's "suspended_at" is a time in UTC
    And the loop's process is alive
    And the agent ran 0 times
    And the list of loops shows it as "suspended", since when, where, by which hook and why
    And the telemetry of "manual-gate" is:
      | exit_code | disposition |
      | 1         | "suspend"   |

  @AC-11
  Scenario: The operator resumes the loop from another process, and it goes on from where it waited
    Given the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And the operator resumes it
    Then the operator is told "resumed" with exit code 0
    And it ended with exit code 0 because of "completed"
    And the timeline is:
      """
      pre.loop.start
      gate
      pre.iteration.start
      post.iteration.start
      agent 1
      gate
      pre.iteration.start
      post.iteration.start
      agent 2
      """
    And no state file and no signal is left

  @AC-12
  Scenario: Resuming a loop that is not suspended, any more or at all, changes nothing and says so
    Given an agent that in its iterations:
      | iteration | does      | what          | more |
      | 1         | waits for | gate          |      |
      | 2         | publishes | LOOP_COMPLETE |      |
    And the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And the operator resumes it
    Then the operator is told "resumed" with exit code 0
    When the agent is at work
    And the operator resumes it
    Then the operator is told "not_suspended" with exit code 0
    And the loop's process is alive
    And no state file and no signal is left
    When the agent may go on after "gate"
    Then it ended with exit code 0 because of "completed"
    When the operator resumes it
    Then the operator is told "not_suspended" with exit code 0
    And it ended with exit code 0 because of "completed"
    And the agent ran 2 times
    When the operator resumes the loop "loop-0000-none"
    Then the command ended with exit code 2

  @LS-06
  Scenario: Two operators resume the same suspension at once: it is resumed once, and both are told
    Given the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And its process stands still
    And two operators resume it, and its process goes on
    Then one of them is told "resumed" and the other that it was resumed before, both with exit code 0
    And it ended with exit code 0 because of "completed"
    And the agent ran 2 times

  @LS-07
  Scenario: A loop is killed while it is suspended, and "loop resume" continues it in a new process
    Given the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And its process is killed
    Then the list of loops shows it as "suspended", since when, where, by which hook and why
    When the operator continues it
    Then the operator's process ended with exit code 0
    And the list of loops shows it as "completed" because of "completed"
    And the timeline is:
      """
      pre.loop.start
      gate
      pre.iteration.start
      post.iteration.start
      agent 1
      gate
      pre.iteration.start
      post.iteration.start
      agent 2
      """
    And no state file and no signal is left

  @LS-08
  Scenario: Of two loops at once one is suspended, and the other works in a worktree to its end
    Given the hook script "hooks/gate.sh":
      """
      case "$TENTER_WORKSPACE" in */.worktrees/*) exit 0 ;; esac
      [ "$TENTER_ITERATION" = 1 ] || exit 0
      echo "operator approval required" >&2
      exit 1
      """
    And the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And another loop runs beside it
    Then the other loop ended with exit code 0
    And the other loop worked in ".worktrees", in a folder and a branch of its id
    And the first loop is suspended as before
    When the operator resumes the first loop
    Then the operator is told "resumed" with exit code 0
    And the first loop ended with exit code 0

  @LS-09
  Scenario Outline: A loop is asked to <verb> while it is suspended
    Given the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And the operator asks it to <verb>
    Then it ended with exit code <code> because of "<reason>"
    And the agent ran 0 times
    And the timeline is:
      """
      pre.loop.start
      gate
      pre.iteration.start
      pre.loop.error
      """
    And no state file and no signal is left

    Examples:
      | verb    | code | reason            |
      | stop    | 1    | stopped           |
      | restart | 3    | restart_requested |

  @LS-10
  Scenario: Ctrl-C while a loop is suspended
    Given the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And its user presses Ctrl-C
    Then it ended with exit code 130 because of "interrupted"
    And the agent ran 0 times
    And the timeline ends with:
      """
      gate
      pre.iteration.start
      pre.loop.error
      """
    And no state file and no signal is left

  @LS-11
  Scenario: A resume signal of an earlier suspension resumes nothing
    Given the hook script "hooks/gate.sh":
      """
      note "gate"
      echo "operator approval required" >&2
      exit 1
      """
    And the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And the operator resumes it, and a copy of the signal is kept
    And it is suspended again
    And the copy of the signal is put back
    Then the signal is taken away
    And the first loop is suspended as before
    And the agent ran 1 time

  @LS-12
  Scenario: With "wait_then_retry" a hook has to pass after the resume, and suspends again until it does
    Given the hook script "hooks/gate.sh":
      """
      note "gate"
      [ "$(grep -c '^gate$' "$records/timeline")" -gt 2 ] && exit 0
      echo "operator approval required" >&2
      exit 1
      """
    And the hooks:
      """
      pre.loop.start:
        - {name: manual-gate, command: [./hooks/gate.sh], on_error: suspend, suspend_mode: wait_then_retry}
        - {name: note, command: [./hooks/note.sh], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And the operator resumes it
    And it is suspended again
    And the operator resumes it
    Then it ended with exit code 0 because of "completed"
    And the timeline is:
      """
      gate
      pre.loop.start
      gate
      gate
      agent 1
      agent 2
      """
    And the telemetry of "manual-gate" is:
      | exit_code | disposition | result    |
      | 1         | "suspend"   | "crashed" |
      | 1         | "suspend"   | "crashed" |
      | 0         | "pass"      | "ok"      |

  @LS-21
  Scenario: A hook that its owner mends while the loop waits runs once it is trusted again, and not before
    Given the hook script "hooks/gate.sh":
      """
      note "gate"; exit 1
      """
    And the hooks:
      """
      pre.loop.start:
        - {name: manual-gate, command: [./hooks/gate.sh], on_error: suspend, suspend_mode: wait_then_retry}
      """
    And the owner commits and trusts the project
    When the loop is started
    And it is suspended
    Given the hook script "hooks/gate.sh":
      """
      note "mended gate"
      """
    When the operator resumes it
    And it is suspended again
    Then its state file's "reason" has "hooks/gate.sh' changed since it was trusted"
    When the owner trusts the project again
    And the operator resumes it
    Then it ended with exit code 0 because of "completed"
    And the timeline is:
      """
      gate
      mended gate
      agent 1
      agent 2
      """
    And the telemetry of "manual-gate" is:
      | exit_code | disposition | result      |
      | 1         | "suspend"   | "crashed"   |
      | null      | "suspend"   | "untrusted" |
      | 0         | "pass"      | "ok"        |

  @LS-13
  Scenario: With "retry_backoff" a hook is tried again in its place, and each try is on record
    Given the hook script "hooks/gate.sh":
      """
      note "gate"
      [ "$(grep -c '^gate$' "$records/timeline")" -gt 2 ] && exit 0
      echo "not yet" >&2
      exit 1
      """
    And the hooks:
      """
      pre.loop.start:
        - {name: flaky, command: [./hooks/gate.sh], on_error: suspend, suspend_mode: retry_backoff}
        - {name: note, command: [./hooks/note.sh], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 0 because of "completed"
    And the timeline is:
      """
      gate
      gate
      gate
      pre.loop.start
      agent 1
      agent 2
      """
    And the telemetry of "flaky" is:
      | attempt | exit_code | disposition | result    |
      | 1       | 1         | "retry"     | "crashed" |
      | 2       | 1         | "retry"     | "crashed" |
      | 3       | 0         | "pass"      | "ok"      |

  @LS-18
  Scenario: Two hooks suspend at one boundary: there is one wait, and one resume is for both
    Given the hook script "hooks/gate.sh":
      """
      note "$1"
      [ -e "$records/$1 asked" ] && exit 0
      : > "$records/$1 asked"
      echo "$1 has to look" >&2
      exit 1
      """
    And the hooks:
      """
      pre.loop.start:
        - {name: security, command: [./hooks/gate.sh, security], on_error: suspend}
        - {name: note, command: [./hooks/note.sh], on_error: block}
        - {name: budget, command: [./hooks/gate.sh, budget], on_error: suspend, suspend_mode: wait_then_retry}
      post.loop.start:
        - {name: note, command: [./hooks/note.sh], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop is started
    And it is suspended
    Then its state file names these suspensions, the first one at its top:
      | hook_name | suspend_mode    | reason               |
      | security  | wait_for_resume | security has to look |
      | budget    | wait_then_retry | budget has to look   |
    When the operator resumes it
    Then it ended with exit code 0 because of "completed"
    And the timeline is:
      """
      security
      pre.loop.start
      budget
      budget
      post.loop.start
      agent 1
      agent 2
      """

  @LS-19
  Scenario: What hooks said is still known after the loop was killed while suspended, and continued
    Given the hook script "hooks/scores.sh":
      """
      echo '{"metadata": {"risk_score": 0.72}}'
      """
    And the hook script "hooks/keep.sh":
      """
      keep "$TENTER_HOOK_PHASE_EVENT $TENTER_ITERATION"
      """
    And the hooks:
      """
      pre.loop.start:
        - {name: scores, command: [./hooks/scores.sh], on_error: block, mutate: {enabled: true}}
      pre.iteration.start:
        - {name: manual-gate, command: [./hooks/gate.sh], on_error: suspend}
      post.iteration.start:
        - {name: keep, command: [./hooks/keep.sh], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And its process is killed
    And the operator continues it
    Then the operator's process ended with exit code 0
    And the accumulated metadata were:
      | seen at                | accumulated                                       |
      | post.iteration.start 1 | {"hook_metadata": {"scores": {"risk_score": 0.72}}} |
      | post.iteration.start 2 | {"hook_metadata": {"scores": {"risk_score": 0.72}}} |

  @LS-20
  Scenario: A suspended loop that is asked to resume, to restart and to stop stops
    Given the owner commits and trusts the project
    When the loop is started
    And it is suspended
    And its process stands still
    And operators ask it to "resume", "restart" and "stop", and its process goes on
    Then the operator is told "stopped" with exit code 0
    And it ended with exit code 1 because of "stopped"
    And the agent ran 0 times
    And no state file and no signal is left
