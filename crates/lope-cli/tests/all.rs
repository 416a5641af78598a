//! The binary from outside: its commands, what it prints, and what it survives.
//!
//! One program for all tests of this crate, so that its dependencies are linked once: every file
//! beside this one is a module of it, and `cargo xtask tidy` finds one that was forgotten.
#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agent_budgets;
mod agent_clock_steps;
mod agent_crash;
mod agent_decisions;
mod agent_hooks;
mod agent_imports;
mod agent_kills;
mod agent_limits;
mod agent_logs;
mod agent_one_task;
mod agent_order;
mod agent_outcomes;
mod agent_rounds;
mod agent_runners;
mod agent_seed;
mod agent_signals;
mod agent_starts;
mod agent_steps;
mod agent_unstarted;
mod agent_verbs;
mod agent_waits;
mod agent_wakeup;
mod agent_wakeup_many;
mod agent_worktrees;
mod agents;
mod bad_input;
mod browser_agents;
mod browser_client;
mod browser_todo;
mod chaos_agent_writes;
mod chaos_agents;
mod chaos_generated;
mod chaos_handlers;
mod chaos_kill;
mod chaos_postgres_runners;
mod chaos_python;
mod chaos_reactive;
mod chaos_schedules;
mod chaos_sleepers;
mod chaos_storm;
mod cli;
mod damage;
mod damaged_ends;
mod damaged_many;
mod damaged_pages;
mod damaged_rows;
mod dashboard;
mod deploy_guide;
mod embedding_calls;
mod fixture;
mod limits;
mod mailbox;
mod mailbox_guide;
mod own;
mod poolers;
mod processes;
mod promises;
mod python;
mod python_commands;
mod python_processes;
mod python_runs;
mod reactive;
mod reactive_answers;
mod reactive_examples;
mod reactive_names;
mod reactive_posts;
mod reactive_runners;
mod reactive_stores;
mod readme;
mod remote;
mod remote_tls;
mod removed_child;
mod runs;
mod schedules;
mod secret_lookups;
mod server;
mod server_memory;
mod server_outages;
mod stage;
mod standstill;
mod store_postgres;
mod telemetry;
mod terminal;
mod upkeep;
mod workflows;
