//! What the reactive runner promises, sentence by sentence, and the tests that hold each sentence.
//!
//! A test of this crate is named `reactive MODULE::NAME`, one of the cells `cells MODULE::NAME`, one
//! of the binary `cli MODULE::NAME`. How long something takes is measured by `lope bench reactive`.

use std::path::Path;

struct Promise {
    about: &'static str,
    words: &'static str,
    tests: &'static [&'static str],
}

const PROMISES: &[Promise] = &[
    Promise {
        about: "Data",
        words: "Address = space, entity id, path. Entity ids are URIs: `of:<hash of the cause>` \
            stored, `data:application/json,…` inline and immutable. Same cause, same id, on every \
            machine and after every restart; never hash source text, closures or randomness.",
        tests: &[
            "cells links::the_same_cause_gives_the_same_id_whatever_the_order_of_its_keys",
            "cells values::a_digest_is_the_same_on_every_machine_and_forgets_no_change",
            "cells values::ids_and_names_are_checked",
            "cells links::an_inline_document_is_read_and_never_written",
            "reactive recipes::an_edited_recipe_is_another_one_and_cell_ids_do_not_depend_on_it",
        ],
    },
    Promise {
        about: "Data",
        words: "One link form in data: `{\"/\": {\"link@1\": {\"id\"?, \"space\"?, \"path\"?, \
            \"schema\"?, \"overwrite\"?: \"redirect\"}}}`, nothing beside the `\"/\"` key; \
            missing id means this document, so relative links are links without id. `$alias` only \
            inside recipe documents.",
        tests: &[
            "cells links::a_link_has_one_form_and_what_only_looks_like_it_is_a_value",
            "cells links::a_link_without_id_means_its_own_document_and_without_space_its_own_space",
        ],
    },
    Promise {
        about: "Data",
        words: "Plain link: reading follows, writing a value replaces the link. Write-redirect: \
            reading follows, writing follows and the redirect stays. Resolution stops at 100 hops \
            with a typed error (reads give undefined). Equal links compare by address only.",
        tests: &[
            "cells links::a_plain_link_is_read_through_and_replaced_by_a_write",
            "cells links::a_redirect_is_read_through_and_written_through_and_stays",
            "cells links::resolution_stops_at_a_hundred_hops_with_an_error_and_reads_give_nothing",
            "cells links::equal_links_compare_by_address_only",
        ],
    },
    Promise {
        about: "Data",
        words: "Writing diffs: only what changed is written; writing the same value, link or redirect \
            is no change; cyclic input becomes links; arrays keep element identity through \
            insert, remove, reorder when elements carry ids; a cell put into a value becomes a \
            link; a `data:` link written is its content.",
        tests: &[
            "cells writes::only_what_changed_is_written",
            "cells writes::a_write_ends_with_the_value_and_touches_only_differences",
            "cells writes::writing_the_same_value_link_or_redirect_is_no_change",
            "cells writes::cyclic_input_becomes_links_and_a_cell_in_a_value_becomes_a_link",
            "cells identity::whoever_points_at_an_element_goes_on_pointing_at_it",
            "cells identity::a_move_writes_links_only_and_the_same_list_nothing",
            "cells writes::an_inline_link_written_is_its_content",
        ],
    },
    Promise {
        about: "Data",
        words: "Reads are projections through JSON Schema (types, properties, items, \
            additionalProperties, anyOf, default, $ref) with `asCell` and `asStream`; a mismatch \
            gives undefined, never an exception; defaults fill in, nested, and are copied per \
            instance.",
        tests: &[
            "cells schemas::types_fit_or_give_nothing",
            "cells schemas::properties_items_and_additional_properties_choose_what_is_read",
            "cells schemas::any_of_takes_the_first_that_fits_and_references_are_followed",
            "cells schemas::as_cell_and_as_stream_give_the_place",
            "cells schemas::defaults_fill_in_nested",
            "reactive recipes::defaults_of_an_argument_are_copied_per_instance",
        ],
    },
    Promise {
        about: "Transactions",
        words: "Read many spaces, write one. Read your own writes.",
        tests: &[
            "cells transactions::many_spaces_are_read_and_one_is_written",
            "cells transactions::a_transaction_reads_its_own_writes_and_nobody_else_does",
        ],
    },
    Promise {
        about: "Transactions",
        words: "Optimistic: at commit every read path is checked against later writes that overlap \
            it; disjoint keys of one document do not conflict.",
        tests: &[
            "cells transactions::a_read_conflicts_with_a_later_write_that_overlaps_it_and_with_no_other",
            "cells transactions::disjoint_keys_of_one_document_do_not_conflict_and_both_stay",
            "cells reads::siblings_under_a_parent_that_did_not_exist_do_not_conflict",
            "cells transactions::committed_transactions_are_serialisable",
            "reactive oracle::unrelated_writes_do_not_conflict",
        ],
    },
    Promise {
        about: "Transactions",
        words: "Conflict → retried; other refusals → not retried, reported. Abort leaves nothing. \
            After commit or abort a transaction is closed.",
        tests: &[
            "cells transactions::a_hundred_writers_lose_nothing",
            "cells transactions::an_edit_that_always_loses_is_given_up_and_names_the_cell",
            "cells transactions::what_cannot_be_done_is_refused_and_not_tried_again",
            "cells transactions::abort_leaves_nothing",
        ],
    },
    Promise {
        about: "Transactions",
        words: "Append, add-unique, increment and remove-by-value carry their intent and survive \
            concurrency.",
        tests: &[
            "cells transactions::intents_survive_concurrency",
            "cells transactions::intents_know_elements_by_their_id",
            "reactive pools::a_hundred_writers_at_once_lose_nothing_though_nobody_hosts_the_space",
        ],
    },
    Promise {
        about: "Scheduler",
        words: "A node runs when it is invalid, live and eligible; registering never runs it by \
            itself. Invalidation is by value and path: an unchanged upstream output runs nothing \
            downstream. An action's own writes do not re-trigger it.",
        tests: &[
            "reactive scheduling::a_node_runs_when_it_is_invalid_live_and_eligible_and_registering_runs_nothing",
            "reactive scheduling::invalidation_is_by_value_and_path",
            "reactive scheduling::a_value_under_a_parent_that_was_not_there_runs_its_own_readers_alone",
            "reactive oracle::no_node_runs_without_a_changed_input",
            "reactive scheduling::an_actions_own_writes_do_not_trigger_it",
        ],
    },
    Promise {
        about: "Scheduler",
        words: "Order: data edges, then parent before child, then registration. At most 10 runs of a \
            node per pass, then back-off 250 ms to 2 s, a `non-settling` report, and the rest \
            goes on. `idle()` returns when nothing can run.",
        tests: &[
            "reactive scheduling::data_edges_decide_then_parents_then_registration",
            "reactive oracle::order_is_respected",
            "reactive scheduling::what_does_not_settle_runs_ten_times_then_backs_off_and_the_rest_goes_on",
            "reactive recipes::a_cyclic_recipe_is_reported_and_the_rest_of_the_space_stays_responsive",
            "reactive chains::a_cycle_of_a_killed_host_waits_on_under_the_next_one",
            "reactive chains::effects_without_end_stay_slow_under_the_next_host",
            "reactive chains::handlers_that_send_to_each_other_without_end_are_slowed_down_and_told",
            "reactive chains::nodes_that_read_each_other_without_end_stay_slow_under_the_next_hosts",
            "reactive chains::nodes_that_write_to_each_other_without_end_are_slowed_down_and_told",
            "cli reactive_posts::spaces_that_feed_each_other_without_end_are_told_back_off_and_stay_responsive",
            "reactive chains::a_host_that_is_waited_for_comes_to_rest_when_nothing_waits_and_nothing_can_run",
            "reactive posts::a_space_is_idle_when_its_queues_are_empty",
        ],
    },
    Promise {
        about: "Scheduler",
        words: "Events: FIFO per space, durable, one handler per stream (the last registered); stale \
            inputs of the handler are brought up to date before it runs; a throwing handler \
            leaves no writes and the next event goes on; redelivery takes effect once;",
        tests: &[
            "reactive events::events_are_handled_in_order_across_streams",
            "reactive chaos_reactive::killed_at_every_write_each_event_counts_once_and_each_effect_is_recorded_once",
            "reactive events::the_last_registered_handler_has_the_stream_until_it_is_removed",
            "reactive events::stale_inputs_of_a_handler_are_brought_up_to_date_before_it_runs",
            "reactive events::a_throwing_handler_leaves_no_writes_and_the_next_event_goes_on",
            "reactive events::redelivery_takes_effect_once_and_gets_the_same_receipt",
        ],
    },
    Promise {
        about: "Scheduler",
        words: "an event for a stream with no running handler waits, then goes to the dead letters; \
            backlog bound 256 per stream: a sender beyond it is refused loudly and may try again.",
        tests: &[
            "reactive events::an_event_without_handler_waits_then_is_a_dead_letter_and_the_others_pass",
            "reactive hosting::an_event_that_nobody_handles_and_a_message_that_is_none_are_dead_letters",
            "reactive hosting::a_dead_letter_that_is_replayed_is_handled_once",
            "reactive events::a_backlog_of_256_a_stream_refuses_loudly_and_takes_more_later",
            "reactive hosting::a_sender_beyond_the_backlog_is_refused_and_may_try_again",
        ],
    },
    Promise {
        about: "Scheduler",
        words: "Test mode: run every computation twice and fail if the writes differ.",
        tests: &[
            "reactive scheduling::the_test_mode_runs_twice_and_fails_what_differs",
            "reactive modules::in_the_test_mode_a_function_that_differs_is_an_error_on_its_node_and_the_others_run",
        ],
    },
    Promise {
        about: "Runner",
        words: "Process cell paired with the result cell (reused through its source link): TYPE, \
            spell (link to the stored recipe document), argument, internal, resultRef — one \
            readable document.",
        tests: &[
            "reactive recipes::the_life_of_a_process_cell",
            "reactive worked_examples::process_cell_lifecycle",
        ],
    },
    Promise {
        about: "Runner",
        words: "`run` with recipe and argument; without recipe → resume the recorded one, or nothing \
            happens and the result cell comes back. Same recipe, same argument → no restart. Same \
            recipe, new argument → updated in place, no restart. Other recipe → the new one's \
            setup must succeed before the old one stops; internal state is re-seeded.",
        tests: &[
            "reactive recipes::the_life_of_a_process_cell",
            "reactive recipes::without_a_recorded_recipe_nothing_happens_and_the_result_cell_comes_back",
            "reactive recipes::a_recipe_whose_setup_fails_leaves_the_old_one_running",
            "reactive stops::a_run_that_fails_deep_inside_leaves_everything_as_it_was",
        ],
    },
    Promise {
        about: "Runner",
        words: "Link or cell arguments become write-redirects: writes flow back, changes are tracked, \
            also after a restart of the process.",
        tests: &["reactive recipes::linked_arguments_are_followed_both_ways_also_after_a_restart"],
    },
    Promise {
        about: "Runner",
        words: "internal = schema defaults, then `initial.internal`, then what was stored; separate \
            copies per instance.",
        tests: &[
            "reactive recipes::internal_state_is_defaults_then_initial_then_what_was_stored_and_separate_per_instance",
        ],
    },
    Promise {
        about: "Runner",
        words: "Node kinds: `ref` (missing → a warning on the process cell, that node skipped, the \
            others run; `--strict` fails), `javascript`, `native`, `raw`, `passthrough`, `recipe` \
            (child result cell, link bound), `workflow` (durable run, result into a cell).",
        tests: &[
            "reactive modules::a_missing_module_leaves_its_node_out_with_a_warning_and_fails_a_strict_run",
            "cli reactive_examples::a_strict_run_fails_when_a_module_is_missing_and_leaves_nothing",
            "reactive scripts::a_script_node_with_a_stream_is_a_handler",
            "reactive recipes::the_life_of_a_process_cell",
            "reactive modules::a_raw_module_sees_cells_and_depends_on_what_it_looks_at",
            "reactive recipes::a_passthrough_forwards_its_inputs",
            "reactive recipes::a_nested_recipe_has_a_result_cell_of_its_own_and_the_output_links_to_it",
            "cli reactive::a_form_starts_a_workflow_and_its_cell_shows_what_came_of_it",
        ],
    },
    Promise {
        about: "Runner",
        words: "A result that contains a run request (`{\"/\": {\"run@1\": {\"recipe\" (link, id or \
            inline), \"argument\", \"key\"?}}}`; helpers build it in Rust and JavaScript) starts \
            a child owned by that node; unchanged → kept; parent stopped → children stopped, \
            unless started in their own right (\"elevated\").",
        tests: &[
            "reactive modules::a_run_request_names_its_recipe_by_link_by_id_or_inline",
            "reactive recipes::a_run_request_in_a_result_starts_a_child_that_is_kept_while_it_is_asked_for",
            "reactive scripts::a_script_starts_recipes_with_run",
            "reactive recipes::stopping_a_parent_stops_its_children_unless_they_were_started_in_their_own_right",
        ],
    },
    Promise {
        about: "Runner",
        words: "Handler inputs are cloned with the event in place of the stream; `wrapper: \
            \"handler\"` calls `fn(event, context)`.",
        tests: &[
            "reactive recipes::an_event_runs_its_handler_with_the_event_in_place_of_the_stream",
            "reactive recipes::the_handler_wrapper_gets_event_and_context",
            "reactive scripts::a_wrapped_script_gets_the_event_and_the_other_inputs",
        ],
    },
    Promise {
        about: "Runner",
        words: "Failing computation: its output becomes undefined, the error is recorded on the \
            process cell, it recovers when inputs change.",
        tests: &[
            "reactive recipes::a_failing_node_is_recorded_on_the_process_cell_and_recovers",
            "reactive scheduling::a_failing_computation_has_no_output_and_recovers_when_its_inputs_change",
        ],
    },
    Promise {
        about: "Runner",
        words: "Stop cancels actions, handlers, nested runs, and cleans up; nothing half-initialised \
            remains after an error.",
        tests: &[
            "reactive stops::stop_cancels_actions_handlers_nested_runs_and_effects_and_nothing_is_left_of_them",
            "reactive stops::a_run_that_fails_deep_inside_leaves_everything_as_it_was",
            "reactive recipes::an_uncommitted_run_has_started_nothing",
        ],
    },
    Promise {
        about: "Runner",
        words: "Built in: map (by element identity), filter, ifElse (the unselected branch is not \
            computed), passthrough, and effects (pending/result/error/requestHash; once per \
            request; after commit).",
        tests: &[
            "reactive recipes::map_keeps_a_child_per_element_by_its_identity",
            "reactive recipes::filter_keeps_the_elements_for_which_the_recipe_says_so",
            "reactive recipes::if_else_computes_the_selected_branch_only",
            "reactive recipes::a_passthrough_forwards_its_inputs",
            "reactive effects::an_effect_is_asked_for_once_a_request_and_its_outcome_lands_in_the_cell",
            "reactive effects::a_request_that_changed_meanwhile_drops_the_outcome_of_the_former",
            "reactive events::a_wave_is_saved_once_settled_and_nobody_is_told_before",
        ],
    },
    Promise {
        about: "Runner",
        words: "Function cache by content; refs resolved once; recipes that appear as values in \
            inputs or outputs are discovered and cached too; changing a module invalidates it. A \
            recipe's id (TYPE) is the hash of its canonical document, so an edited recipe is \
            another recipe; cell ids never depend on it.",
        tests: &[
            "reactive modules::a_function_is_compiled_once_whoever_has_it",
            "reactive modules::a_ref_is_resolved_once_and_whoever_names_it_calls_the_same_function",
            "reactive modules::recipes_that_appear_as_values_in_inputs_or_outputs_are_found_and_stay_as_they_are",
            "reactive recipes::a_changed_module_is_used_from_then_on",
            "reactive recipes::an_edited_recipe_is_another_one_and_cell_ids_do_not_depend_on_it",
        ],
    },
    Promise {
        about: "Runner",
        words: "The running set, recipes, events and effects survive a crash: kill at every store \
            write, restart → the same final cells.",
        tests: &[
            "reactive chaos_reactive::killed_at_every_write_each_event_counts_once_and_each_effect_is_recorded_once",
            "reactive chaos_reactive::a_life_of_kills_ends_like_a_calm_one",
            "cli reactive::runners_killed_again_and_again_count_each_of_a_hundred_events_once",
        ],
    },
    Promise {
        about: "JavaScript",
        words: "QuickJS through `rquickjs`: no clock, no randomness, no eval, frozen built-ins, fuel, \
            memory and stack limits, compiled functions cached; a script that exceeds a limit is \
            an error on its node and never harms others.",
        tests: &[
            "reactive scripts::there_is_no_clock_no_chance_and_no_compiler",
            "reactive scripts::built_ins_are_frozen_and_nothing_outlives_a_call",
            "reactive scripts::everything_that_scripts_have_in_common_is_frozen",
            "reactive scripts::a_script_that_changes_how_lists_are_gone_through_changes_nothing_for_others",
            "reactive scripts::a_script_that_exceeds_a_limit_is_an_error_and_the_next_one_runs",
            "reactive scripts::fuel_is_counted_in_steps_so_that_a_call_ends_alike_everywhere",
            "reactive modules::a_function_is_compiled_once_whoever_has_it",
            "reactive scripts::a_hostile_script_is_an_error_on_its_node_and_the_others_are_unharmed",
            "cli reactive_answers::hostile_scripts_are_errors_on_their_nodes_and_other_spaces_are_unharmed",
        ],
    },
    Promise {
        about: "JavaScript",
        words: "Async functions are driven to their end inside the same transaction and limits (there \
            is nothing to wait for outside).",
        tests: &[
            "reactive scripts::async_functions_are_driven_to_their_end",
            "reactive scripts::a_script_that_exceeds_a_limit_is_an_error_and_the_next_one_runs",
            "reactive scripts::an_async_function_reads_and_writes_in_the_transaction_of_its_call",
        ],
    },
    Promise {
        about: "Figures",
        words: "a chain of 1,000 and a fan-out of 10,000 settle in time linear in the nodes that \
            changed; changing one leaf of a 100,000-node graph runs only its readers; one commit \
            per settled wave.",
        tests: &[
            "reactive scheduling::a_chain_and_a_fan_run_each_node_once_and_a_leaf_runs_its_reader_alone",
            "reactive document_rows::a_change_of_a_large_process_costs_as_much_as_the_change",
            "reactive events::a_wave_is_saved_once_settled_and_nobody_is_told_before",
        ],
    },
];

/// The file that a test is in, and its name there.
fn place(test: &str) -> (String, &str) {
    let (room, test) = test.split_once(' ').unwrap();
    let (module, name) = test.split_once("::").unwrap();
    let folder = match room {
        "cells" => "lope-cells/tests/all",
        "reactive" => "lope-reactive/tests/all",
        "cli" => "lope-cli/tests",
        other => panic!("no room '{other}'"),
    };
    (format!("{folder}/{module}.rs"), name)
}

#[test]
fn every_promise_names_tests_that_are_there() {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for promise in PROMISES {
        let told = format!("{}: {}", promise.about, promise.words);
        assert!(!promise.tests.is_empty(), "no test holds: {told}");
        for test in promise.tests {
            let (file, name) = place(test);
            let source = std::fs::read_to_string(crates.join(&file)).unwrap();
            // A function, or a name of `on_every_store!`.
            let is_there = source.contains(&format!("fn {name}("))
                || source.contains(&format!("    {name} => super::"));
            assert!(is_there, "{name} in {file}, which holds: {told}");
        }
    }
}

/// A text without its line breaks, headings and list marks.
fn plain(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| line.strip_prefix("- ").unwrap_or(line));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

/// The file of behaviours stands beside the repository, not in it; without it there is nothing to
/// compare with.
#[test]
fn the_promises_are_the_file_of_behaviours_word_by_word() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/behaviours/reactive.md"
    );
    let Ok(text) = std::fs::read_to_string(file) else {
        return;
    };
    let mut rest = plain(&text);
    for promise in PROMISES {
        let words = plain(promise.words);
        assert!(rest.contains(&words), "the file does not say: {words}");
        rest = rest.replacen(&words, "", 1);
    }
    // The first figure is measured by `lope bench reactive`.
    for other in [
        "Implement the seed's observable contract. Where it is silent, these.",
        "≤ 10 µs overhead per run of a native node in memory;",
    ] {
        rest = rest.replacen(other, "", 1);
    }
    assert_eq!(rest.trim(), "", "nobody holds this");
}
