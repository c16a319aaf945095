Feature: Hooks within bounds, and on record
  A hook has a deadline and room for its output, and each of its runs leaves one record.

  Background:
    Given a project in a git repository
    And an agent that in its iterations:
      | iteration | does      | what          | more |
      | 2         | publishes | LOOP_COMPLETE |      |

  @AC-06
  Scenario: A hook that runs too long is ended, with all that it started, and recorded as timed out
    Given the hook script "hooks/hangs.sh":
      """
      trap '' TERM
      sleep 300 &
      echo "$$ $!" >> "$records/processes"
      wait
      """
    And the hooks:
      """
      pre.loop.start:
        - {name: hangs, command: [./hooks/hangs.sh], on_error: warn, timeout_seconds: 1, grace_seconds: 0.2}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 0
    And every process of the file "processes" is gone
    And the telemetry of "hangs" is:
      | phase_event    | timed_out | exit_code | result    | disposition |
      | "pre.loop.start" | true      | null      | "timeout" | "warn"      |

  @AC-07
  Scenario: What a hook prints beyond its limit is cut, each time at the same byte
    Given the hook script "hooks/prints.sh":
      """
      for _ in 1 2 3 4 5 6 7 8 9 10; do printf 0123456789; done
      printf 'all of it' >&2
      """
    And the hooks:
      """
      pre.iteration.start:
        - {name: prints, command: [./hooks/prints.sh], on_error: block, max_output_bytes: 25}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 0
    And the telemetry of "prints" is:
      | stdout                      | stdout_truncated | stderr      | stderr_truncated |
      | "0123456789012345678901234" | true             | "all of it" | false            |
      | "0123456789012345678901234" | true             | "all of it" | false            |

  @AC-16
  Scenario: Each run of a hook leaves a whole record, however it ended
    Given the hook script "hooks/ends.sh":
      """
      echo "on stdout"
      echo "on stderr" >&2
      [ "$1" = hangs ] && exec sleep 300
      exit "$1"
      """
    And the hooks:
      """
      pre.loop.start:
        - {name: passes, command: [./hooks/ends.sh, "0"], on_error: block}
        - {name: fails, command: [./hooks/ends.sh, "3"], on_error: warn}
        - {name: hangs, command: [./hooks/ends.sh, hangs], on_error: warn, timeout_seconds: 1, grace_seconds: 0.2}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 0
    And each record of the hooks' log has exactly the keys:
      """
      timestamp loop_id phase_event hook_name started_at ended_at duration_ms exit_code timed_out stdout stderr disposition
      result attempt stdout_truncated stderr_truncated
      """
    And the records' times are in order and their durations fit
    And the telemetry of "passes" is:
      | phase_event    | exit_code | timed_out | stdout        | stderr        | disposition | result |
      | "pre.loop.start" | 0         | false     | "on stdout\\n" | "on stderr\\n" | "pass"      | "ok"   |
    And the telemetry of "fails" is:
      | phase_event    | exit_code | timed_out | stdout        | stderr        | disposition | result    |
      | "pre.loop.start" | 3         | false     | "on stdout\\n" | "on stderr\\n" | "warn"      | "crashed" |
    And the telemetry of "hangs" is:
      | phase_event    | exit_code | timed_out | stdout        | stderr        | disposition | result    |
      | "pre.loop.start" | null      | true      | "on stdout\\n" | "on stderr\\n" | "warn"      | "timeout" |
