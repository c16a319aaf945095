Feature: Hooks at the boundaries of a loop
  What runs where, in which order, and what it is told. Every hook script begins with two functions: "note" writes a
  line into the timeline, which the agent and the operator write to as well, and "keep" puts standard input into a file.

  Background:
    Given a project in a git repository
    And an agent that in its iterations:
      | iteration | does      | what          | more         |
      | 1         | publishes | plan.ready    | {"steps": 2} |
      | 2         | publishes | LOOP_COMPLETE |              |

  @AC-01
  Scenario: The hooks of the project's own file run, and no file outside the project is needed
    Given the hook script "hooks/note.sh":
      """
      note "by the project"
      """
    And the hooks:
      """
      pre.loop.start:
        - {name: note, command: [./hooks/note.sh], on_error: block}
      """
    And the folder above the project has hooks that note "by the folder above"
    And the user has no configuration
    And the owner commits and trusts the project
    When the loop runs with "--max-iterations 1"
    Then it ended with exit code 2
    And the timeline is:
      """
      by the project
      agent 1
      """

  @AC-02
  Scenario: All six events of a loop are handed to hooks, in both phases, with structured payloads
    Given the hook script "hooks/keep.sh":
      """
      keep "$TENTER_HOOK_PHASE_EVENT"
      """
    And a hook "keep" with the command "./hooks/keep.sh" at both phases of every event
    And in iteration 1 the agent asks "Go on?"
    And the owner commits and trusts the project
    When the loop is started
    And the operator answers its question with "y"
    Then it ended with exit code 0
    And these payloads were kept:
      | point                | payload                                                                    |
      | pre.loop.start       | {"prompt": "Build the thing.", "topic": "task.start"}                      |
      | post.loop.start      | {"prompt": "Build the thing.", "topic": "task.start"}                      |
      | pre.iteration.start  | {"number": 2}                                                              |
      | post.iteration.start | {"number": 2, "hat": null, "task": null}                                   |
      | pre.plan.created     | {"topic": "plan.ready", "payload": {"steps": 2}}                           |
      | post.plan.created    | {"topic": "plan.ready", "payload": {"steps": 2}}                           |
      | pre.human.interact   | {"question": "Go on?", "options": ["y"]}                                   |
      | post.human.interact  | {"question": "Go on?", "options": ["y"], "outcome": "answered", "answer": "y"} |
      | pre.loop.complete    | {"reason": "completed", "iterations": 2}                                   |
      | post.loop.complete   | {"reason": "completed", "iterations": 2}                                   |
    And no payload was kept of "pre.loop.error"
    When the loop runs with "--max-iterations 1"
    Then it ended with exit code 2
    And these payloads were kept:
      | point           | payload                                       |
      | pre.loop.error  | {"reason": "max_iterations", "iterations": 1} |
      | post.loop.error | {"reason": "max_iterations", "iterations": 1} |

  @AC-03
  Scenario: Of each event the pre hooks run before its work and the post hooks after it
    Given the hook script "hooks/note.sh":
      """
      note "$TENTER_HOOK_PHASE_EVENT"
      keep "$TENTER_HOOK_PHASE_EVENT"
      """
    And a hook "note" with the command "./hooks/note.sh" at both phases of every event
    And in iteration 1 the agent asks "Go on?"
    And the loop's settings:
      """
      hats: {builder: {instructions: Build., triggers: ["*", "*.*"]}}
      """
    And the owner commits and trusts the project
    When the loop is started
    And the operator answers its question with "y"
    Then it ended with exit code 0
    And the timeline is:
      """
      pre.loop.start
      post.loop.start
      pre.iteration.start
      post.iteration.start
      agent 1
      pre.plan.created
      post.plan.created
      pre.human.interact
      the operator answers
      post.human.interact
      pre.iteration.start
      post.iteration.start
      agent 2
      pre.loop.complete
      post.loop.complete
      """
    And before and after the work of "iteration.start" the context's "selected_hat" is:
      | before | after     |
      | null   | "builder" |
    And before and after the work of "human.interact" the context's "human_interact" is:
      | before                                                  | after                                                     |
      | {"question": "Go on?", "outcome": null, "answer": null} | {"question": "Go on?", "outcome": "answered", "answer": "y"} |

  @AC-04
  Scenario: The hooks of one phase run one after the other, in the order of the file
    Given the hook script "hooks/slow.sh":
      """
      note "$1 begins"
      sleep 0.1
      note "$1 ends"
      """
    And the hooks:
      """
      pre.iteration.start:
        - {name: third-by-name, command: [./hooks/slow.sh, first], on_error: block}
        - {name: first-by-name, command: [./hooks/slow.sh, second], on_error: block}
        - {name: second-by-name, command: [./hooks/slow.sh, third], on_error: block}
      post.iteration.start:
        - {name: b, command: [./hooks/slow.sh, fourth], on_error: block}
        - {name: a, command: [./hooks/slow.sh, fifth], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop runs with "--max-iterations 1"
    Then the timeline is:
      """
      first begins
      first ends
      second begins
      second ends
      third begins
      third ends
      fourth begins
      fourth ends
      fifth begins
      fifth ends
      agent 1
      """

  @AC-05
  Scenario: A hook gets one JSON document on stdin and a few variables
    Given the hook script "hooks/keep.sh":
      """
      env | sort > "$records/variables"
      keep payload
      """
    And the hooks:
      """
      post.iteration.start:
        - {name: keep, command: [./hooks/keep.sh], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop runs with "--max-iterations 1" and the variable "TOKEN" in its environment
    Then the kept payload "payload" is what 'tenter hooks schema payload' describes
    And it says, with the loop's own id, process and folders:
      """
      {
        "schema_version": 1, "phase": "post", "event": "iteration.start", "phase_event": "post.iteration.start",
        "loop": {"id": "{id}", "is_primary": true, "workspace": "{project}", "repo_root": "{project}", "pid": {pid}},
        "iteration": {"current": 1, "max": 1},
        "context": {
          "active_hat": null, "selected_hat": null, "selected_task": null,
          "termination_reason": null, "human_interact": null
        },
        "metadata": {"accumulated": {}}
      }
      """
    And the hook's variables were:
      | variable                | value                |
      | TENTER_HOOK_EVENT       | iteration.start      |
      | TENTER_HOOK_PHASE       | post                 |
      | TENTER_HOOK_PHASE_EVENT | post.iteration.start |
      | TENTER_LOOP_ID          | {id}                 |
      | TENTER_WORKSPACE        | {project}            |
      | TENTER_PROJECT_DIR      | {project}            |
      | TENTER_ITERATION        | 1                    |
    And it had no variable "TOKEN"

  @LS-01
  Scenario: A guard decides by the TENTER_ variables alone
    Given the hook script "hooks/guard.sh":
      """
      [ "$TENTER_HOOK_PHASE_EVENT" = pre.iteration.start ] || exit 3
      [ -d "$TENTER_WORKSPACE/.git" ] || exit 4
      [ "$TENTER_ITERATION" -lt 2 ] && exit 0
      echo "iteration $TENTER_ITERATION of $TENTER_LOOP_ID is one too many" >&2
      exit 1
      """
    And the hooks:
      """
      pre.iteration.start:
        - {name: guard, command: [./hooks/guard.sh], on_error: block}
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 1 because of "blocked"
    And its message has "iteration 2 of {id} is one too many"
    And the agent ran 1 time

  @LS-02
  Scenario: In a loop whose backend is a task, a tool's hook is told of the loop
    Given the hook script "hooks/keep.sh":
      """
      keep payload
      """
    And the whole configuration:
      """
      version: 1
      models: {default: {provider: scripted, file: script.yaml}}
      tasks: {build: {version: 1, model: default, instructions: Build., tools: [list_dir]}}
      loop: {backend: {harness: build}, max_iterations: 3}
      hooks:
        events:
          tool.before:
            - {name: keep, command: [./hooks/keep.sh], on_error: block}
      """
    And the project's file "script.yaml":
      """
      version: 1
      turns:
        - {tool_calls: [{name: list_dir, arguments: {path: .}}]}
        - LOOP_COMPLETE
      """
    And the owner commits and trusts the project
    When the loop runs
    Then it ended with exit code 0
    And it says, with the loop's own id, process and folders:
      """
      {
        "phase_event": "pre.tool.invoked", "alias": "tool.before",
        "loop": {"id": "{id}", "is_primary": true, "workspace": "{project}", "repo_root": "{project}", "pid": {pid}},
        "iteration": {"current": 1, "max": 3},
        "context": {
          "active_hat": null, "selected_hat": null, "selected_task": "build",
          "termination_reason": null, "human_interact": null
        }
      }
      """
