Feature: What hooks may say to later hooks, and that they may change nothing else

  Background:
    Given a project in a git repository
    And an agent that in its iterations:
      | iteration | does      | what          | more |
      | 1         | publishes | build.done    | "x"  |
      | 2         | publishes | LOOP_COMPLETE |      |
    And the hook script "hooks/keep.sh":
      """
      keep "$TENTER_HOOK_PHASE_EVENT $TENTER_ITERATION$1"
      """

  @AC-13
  Scenario: Metadata of a hook that was not allowed to give any is left aside
    Given the hook script "hooks/scores.sh":
      """
      echo '{"metadata": {"risk_score": 0.72}}'
      """
    And the hook script "hooks/passes.sh":
      """
      echo '{"decision": "pass", "metadata": {"risk_score": 0.72}}'
      """
    And the hooks:
      """
      pre.iteration.start:
        - {name: scores, command: [./hooks/scores.sh], on_error: block}
        - {name: passes, command: [./hooks/passes.sh], verdict: json, on_error: block}
        - {name: keep, command: [./hooks/keep.sh], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 0
    And the accumulated metadata were:
      | seen at               | accumulated |
      | pre.iteration.start 1 | {}          |
      | pre.iteration.start 2 | {}          |

  @AC-14
  Scenario: Metadata of a hook that may give some reach later hooks, and nothing else is changed
    Given the hook script "hooks/scores.sh":
      """
      [ -e "$records/armed" ] || exit 0
      echo '{"metadata": {"risk_score": 0.72, "gates": ["policy_check"], "prompt": "Forget it."}}'
      """
    And the hooks:
      """
      pre.iteration.start:
        - {name: before, command: [./hooks/keep.sh], on_error: block}
        - {name: scores, command: [./hooks/scores.sh], on_error: block, mutate: {enabled: true}}
        - {name: later, command: [./hooks/keep.sh, " later"], on_error: block}
      post.iteration.start:
        - {name: after, command: [./hooks/keep.sh], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop runs, and what its agent was told and what it published is kept
    Then the accumulated metadata were:
      | seen at                     | accumulated |
      | pre.iteration.start 1       | {}          |
      | pre.iteration.start 1 later | {}          |
      | post.iteration.start 1      | {}          |
    When the hook "scores" is armed
    And the loop runs
    Then it ended with exit code 0
    And the accumulated metadata were:
      | seen at                     | accumulated                                                                                            |
      | pre.iteration.start 1       | {}                                                                                                     |
      | pre.iteration.start 1 later | {"hook_metadata": {"scores": {"risk_score": 0.72, "gates": ["policy_check"], "prompt": "Forget it."}}} |
      | post.iteration.start 1      | {"hook_metadata": {"scores": {"risk_score": 0.72, "gates": ["policy_check"], "prompt": "Forget it."}}} |
      | pre.iteration.start 2       | {"hook_metadata": {"scores": {"risk_score": 0.72, "gates": ["policy_check"], "prompt": "Forget it."}}} |
    And what the agent was told and what it published is the same as before
    And the configuration is as it was committed

  @AC-15
  Scenario: What is not JSON, not exactly metadata or too long is an error of its own and changes nothing
    Given the hook script "hooks/prints.sh":
      """
      printf '%s' "$1"
      """
    And the hooks:
      """
      pre.iteration.start:
        - {name: text, command: [./hooks/prints.sh, "risk is high"], on_error: warn, mutate: {enabled: true}}
        - {name: xml, command: [./hooks/prints.sh, "<metadata><risk>1</risk></metadata>"], on_error: warn, mutate: {enabled: true}}
        - {name: cut, command: [./hooks/prints.sh, '{"metadata": {"risk"'], on_error: warn, mutate: {enabled: true}}
        - {name: twice, command: [./hooks/prints.sh, '{"metadata": {}} {"metadata": {}}'], on_error: warn, mutate: {enabled: true}}
        - {name: more, command: [./hooks/prints.sh, '{"metadata": {"a": 1}, "prompt": "Forget it."}'], on_error: warn, mutate: {enabled: true}}
        - {name: long, command: [./hooks/prints.sh, '{"metadata": {"a": 1}}'], on_error: warn, mutate: {enabled: true}, max_output_bytes: 20}
      post.iteration.start:
        - {name: after, command: [./hooks/keep.sh], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop runs with "--max-iterations 1"
    Then it ended with exit code 2
    And the accumulated metadata were:
      | seen at                | accumulated |
      | post.iteration.start 1 | {}          |
    And these hooks have one record each:
      | hook  | result          | disposition |
      | text  | "bad_output"    | "warn"      |
      | xml   | "bad_output"    | "warn"      |
      | cut   | "bad_output"    | "warn"      |
      | twice | "bad_output"    | "warn"      |
      | more  | "bad_output"    | "warn"      |
      | long  | "output_capped" | "warn"      |

  @LS-14
  Scenario: A hook whose metadata are no JSON blocks where its failure blocks
    Given the hook script "hooks/prints.sh":
      """
      echo "risk is high"
      """
    And the hooks:
      """
      pre.iteration.start:
        - {name: scores, command: [./hooks/prints.sh], on_error: block, mutate: {enabled: true}}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 1 because of "blocked"
    And its message has "scores"
    And the agent ran 0 times
