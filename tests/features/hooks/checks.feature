Feature: What is checked before a loop runs, and whose word it takes to run a project's code

  Background:
    Given a project in a git repository
    And an agent that in its iterations:
      | iteration | does      | what          | more |
      | 2         | publishes | LOOP_COMPLETE |      |
    And the hook script "hooks/note.sh":
      """
      note "$TENTER_HOOK_PHASE_EVENT"
      """

  @AC-17
  Scenario: "hooks validate" tells all that is wrong with hooks, where, and what to do, and runs nothing
    Given the hooks:
      """
      pre.loop.start:
        - {name: note, command: [./hooks/note.sh]}
        - {name: other, command: [./hooks/note.sh], on_error: explode}
        - {name: twin, command: [./hooks/note.sh], on_error: warn}
        - {name: twin, command: [./hooks/note.sh], on_error: warn}
        - {name: absent, command: [./hooks/absent.sh], on_error: warn}
        - {name: hasty, command: [./hooks/note.sh], on_error: warn, timeout_seconds: 0}
        - {name: says, command: [./hooks/note.sh], on_error: warn, mutate: {enabled: maybe}}
        - {name: waits, command: [./hooks/note.sh], on_error: suspend, suspend_mode: forever}
      pre.loop.strat:
        - {name: note, command: [./hooks/note.sh], on_error: warn}
      """
    And the configuration is written
    When the user runs: tenter hooks validate
    Then the command ended with exit code 2
    And the report has these problems, each with file and line:
      | at                                             | told                                                       |
      | hooks.events.pre.loop.start[0].command         | 'command' needs 'on_error' beside it                       |
      | hooks.events.pre.loop.start[1].on_error        | expected 'warn' or 'block' or 'suspend'                    |
      | hooks.events.pre.loop.start[3].name            | the name 'twin' is taken                                   |
      | hooks.events.pre.loop.start[4].command[0]      | the program './hooks/absent.sh' does not exist             |
      | hooks.events.pre.loop.start[5].timeout_seconds | expected a number of seconds above 0                       |
      | hooks.events.pre.loop.start[6].mutate.enabled  | expected true or false, got 'maybe'                        |
      | hooks.events.pre.loop.start[7].suspend_mode    | expected 'wait_for_resume' or 'retry_backoff'              |
      | hooks.events.pre.loop.strat                    | no point 'pre.loop.strat'; did you mean 'pre.loop.start'?  |
    And nothing ran

  @AC-18
  Scenario: A loop whose hooks do not hold is not started, unless its preflight is skipped
    Given the hooks:
      """
      pre.loop.start:
        - {name: note, command: [./hooks/note.sh], on_error: warn}
      pre.iteration.start:
        - {name: elsewhere, command: [./hooks/note.sh], cwd: a-folder, on_error: warn}
      """
    And the project's folder "a-folder"
    And the owner commits and trusts the project
    And the folder "a-folder" is taken away
    When the loop runs
    Then it ended with exit code 2
    And standard error has "the preflight failed, and nothing was started"
    And standard error has "hooks: tenter.yaml:"
    And standard error has "there is no folder 'a-folder'"
    And nothing ran
    And no loop is listed
    When the loop runs with "--skip-preflight"
    Then it ended with exit code 0
    And the timeline is:
      """
      pre.loop.start
      agent 1
      agent 2
      """
    When the user runs: tenter loop preflight --check hooks
    Then the command ended with exit code 2
    And the report has "there is no folder 'a-folder'"

  @LS-15
  Scenario: The hooks of a project that nobody trusted do not run
    Given the hooks:
      """
      pre.loop.start:
        - {name: note, command: [./hooks/note.sh], on_error: warn}
      """
    And the owner commits the project
    When the loop runs
    Then it ended with exit code 6
    And standard error has "tenter hooks trust"
    And nothing ran
    And no loop is listed

  @LS-16
  Scenario: A hook script that was changed after it was trusted does not run until it is trusted again
    Given the hooks:
      """
      pre.loop.start:
        - {name: note, command: [./hooks/note.sh], on_error: warn}
      """
    And the owner commits and trusts the project
    And the hook script "hooks/note.sh":
      """
      note "something else"
      """
    When the loop runs
    Then it ended with exit code 6
    And standard error has "hooks/note.sh"
    And nothing ran
    When the owner trusts the project again
    And the loop runs
    Then it ended with exit code 0
    And the timeline is:
      """
      something else
      agent 1
      agent 2
      """

  @LS-17
  Scenario: An agent that rewrites a hook while the loop runs does not get it to run
    Given the hooks:
      """
      post.iteration.start:
        - {name: note, command: [./hooks/note.sh], on_error: block}
      """
    And an agent that in its iterations:
      | iteration | does           | what          | more |
      | 1         | adds a line to | hooks/note.sh |      |
      | 2         | publishes      | LOOP_COMPLETE |      |
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 1 because of "blocked"
    And the timeline is:
      """
      post.iteration.start
      agent 1
      """
    And the telemetry of "note" is:
      | exit_code | result      | disposition |
      | 0         | "ok"        | "pass"      |
      | null      | "untrusted" | "block"     |
