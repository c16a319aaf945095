Feature: An agent repairs a project, on hooks
  The example of the repository, through the real command line: what a new user sees when they type `make demo`.

  Background:
    Given a copy of the example "fix-tests"

  Scenario: The agent makes the failing tests pass, and the hooks guard, rewrite and record
    Given the tests of the project fail
    When the user runs: tenter run fix "make the tests pass" --steps
    Then the exit code is 0
    And standard output is the agent's answer alone
    And the tests of the project pass
    And the screen shows that the hook "no-destruction" refused "rm -rf build tests"
    And the folder "tests" is still there
    And the screen shows that "python3 -m unittest" was rewritten to "python3 -B -m unittest"
    And no bytecode stands beside the sources
    And the file "tool-calls.log" has every call, the refused one too
    And the summary tells what each hook did

  Scenario: What happened is on record
    When the user runs: tenter run fix "make the tests pass"
    Then the exit code is 0
    And standard error is one line
    And "tenter runs list" names one run of the task "fix" that completed
    And "tenter runs show" tells that the hook "no-destruction" blocked a call
    And "tenter hooks log" has 2 runs of "no-destruction" and 6 of "log-tools"

  Scenario: Without its guard the agent goes another way
    Given the hook "no-destruction" is taken out of the configuration
    When the user runs: tenter run fix "make the tests pass" --steps
    Then the folder "tests" is gone
