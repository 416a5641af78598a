//! What a wave says of nodes that ran and of cells that changed, besides what they hold.

use lope_model::Timestamp;

use super::wave::CellChange;
use super::{Program, SpaceMachine};
use crate::scheduler::NonSettling;
use lope_cells::id::EntityId;
use lope_cells::json::Json;
use lope_cells::record::UnsettledNote;

impl<P: Program> SpaceMachine<P> {
    /// Puts down how the nodes fared that ran or were taken out.
    pub(super) fn note_nodes(&mut self, now: Timestamp) {
        for name in self
            .nodes
            .take_removed(self.wave_nodes.saturating_sub(self.ran.len()))
        {
            self.wave.nodes.push((name, None));
        }
        self.is_cut |= self.nodes.has_removed();
        let mut ran: Vec<_> = std::mem::take(&mut self.ran).into_iter().collect();
        ran.sort_unstable_by_key(|(node, _)| *node);
        self.wave.nodes.reserve(ran.len());
        for (node, report) in ran {
            let unsettled = report.map(|report| self.unsettled(&report));
            let unsettled = unsettled.or_else(|| self.chains.take_note(node, now));
            let cells = self.spaces.snapshot();
            if let Some((name, record, wiring)) = self.nodes.record(node, cells, unsettled) {
                self.wave.nodes.push((name.clone(), Some(record)));
                self.wave
                    .wirings
                    .extend(wiring.map(|wiring| (name, wiring)));
            }
        }
    }

    fn unsettled(&self, report: &NonSettling) -> UnsettledNote {
        let names = report.cycle.iter();
        let names = names.filter_map(|node| self.nodes.name_of(*node).cloned());
        UnsettledNote {
            runs: report.runs,
            messages: 0,
            cycle: names.collect(),
            until: report.until.millis(),
            wait: report.wait.millis(),
        }
    }

    /// Puts down what changed, as it stands now.
    pub(super) fn note_history(&mut self) {
        let mut known: Option<(EntityId, Option<&Json>)> = None;
        let changed = self.changed.take();
        self.wave.history.reserve(changed.len());
        for (id, path, by) in changed {
            let document = match &known {
                Some((last, document)) if *last == id => *document,
                Some(_) | None => {
                    let document = self.spaces.snapshot().document(&self.space, &id);
                    known = Some((id.clone(), document));
                    document
                }
            };
            let value = document.and_then(|root| root.at(path.keys())).cloned();
            self.wave.history.push(CellChange {
                id,
                path,
                value,
                by: self.nodes.describe(&by),
            });
        }
        self.nodes.forget_removed();
    }
}
