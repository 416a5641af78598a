//! What is done outside of a space because a recipe asked for it.

use std::sync::Arc;

use async_trait::async_trait;
use lope_cells::chain::PostChain;
use lope_cells::id::SpaceName;
use lope_cells::json::Json;
use lope_cells::transaction::EffectRequest;
use lope_model::Failure;

/// An effect that a node asked for, in a wave that is on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedEffect {
    pub space: SpaceName,
    /// Names the node and the request; the same request of the same node has the same key, also
    /// when it is asked for again after a crash.
    pub key: Arc<str>,
    /// Which effect.
    pub name: Arc<str>,
    pub request: Json,
    /// What led to it.
    pub chain: PostChain,
}

/// Does effects.
#[async_trait]
pub trait EffectPerformer: Send + Sync {
    /// Does an effect and tells what came of it. None leaves it pending for whoever hosts the space
    /// next.
    async fn perform(&self, effect: &RequestedEffect) -> Option<Result<Json, Failure>>;

    /// Whether an effect can be begun that could not when it was asked for (`NOT_DEPLOYED`).
    async fn can_begin(&self, _effect: &RequestedEffect) -> bool {
        false
    }
}

/// Leaves every effect to somebody else.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEffects;

#[async_trait]
impl EffectPerformer for NoEffects {
    async fn perform(&self, _: &RequestedEffect) -> Option<Result<Json, Failure>> {
        None
    }
}

impl RequestedEffect {
    /// What a space's machine asked for.
    pub(super) fn new(space: &SpaceName, effect: &EffectRequest) -> Self {
        let name = effect.request.child("name").and_then(Json::as_str);
        Self {
            space: space.clone(),
            key: effect.key.clone(),
            name: name.unwrap_or_default().into(),
            request: effect.request.child("request").cloned().unwrap_or_default(),
            chain: effect.chain.clone(),
        }
    }

    /// What a space's machine asks for to have it done.
    pub(super) fn asked(&self) -> Json {
        let name = Json::from(Arc::clone(&self.name));
        Json::object([("name", name), ("request", self.request.clone())])
    }
}
