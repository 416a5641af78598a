//! What agents are given by name may be a secret: neither their logs, nor what is written of them,
//! nor what they say about their tasks shows it.

use std::sync::Arc;

use lope_agents::settings::{AgentSettings, AgentsSettings};
use lope_model::masks::Masks;
use lope_workers::InheritedEnvironment;

/// Shortest value of a variable that is hidden, in bytes.
const MASKED_LENGTH: usize = 6;

/// What is hidden of one agent.
pub fn masks_of(environment: &InheritedEnvironment, agent: &AgentSettings) -> Masks {
    let base = environment.clone().for_processes();
    let all = environment.clone();
    let named = all.allow(agent.env.iter().cloned()).for_processes();
    let named = named.into_iter().filter(|pair| !base.contains(pair));
    let values = named.filter_map(|(_, value)| value.into_string().ok());
    let long = values.filter(|value| value.len() >= MASKED_LENGTH);
    Masks::of(long.map(Arc::from))
}

/// What is hidden of whichever agent it is.
pub fn masks_of_any(environment: &InheritedEnvironment, agents: &AgentsSettings) -> Masks {
    let all = agents.values().map(|agent| masks_of(environment, agent));
    all.fold(Masks::default(), |masks, own| masks.and(&own))
}
