//! Recipes that appear as values, in inputs and in results: read once, so that whoever runs one of
//! them later finds it.

use std::sync::Arc;

use super::RecipeRunner;
use crate::binding::recipes_in;
use crate::limit;
use crate::recipe::Recipe;
use lope_cells::json::Json;

impl RecipeRunner {
    /// A recipe that was read before, because it runs or because it was met as a value.
    pub fn known_recipe(&self, id: &str) -> Option<Arc<Recipe>> {
        let known = self.recipes.get(id).or_else(|| self.discovered.get(id));
        known.cloned()
    }

    /// Reads the recipes in the inputs of a node.
    pub(super) fn discover_in(&mut self, inputs: &Json) {
        self.discover(&recipes_in(inputs));
    }

    /// Reads recipes that were met. What is none after all is left to whoever tries to run it.
    pub(super) fn discover(&mut self, documents: &[Json]) {
        for document in documents {
            let id: Arc<str> = document.digest().to_string().into();
            if self.recipes.contains_key(&id) || self.discovered.contains_key(&id) {
                continue;
            }
            let Ok(recipe) = Recipe::parse(document) else {
                continue;
            };
            if self.discovered.len() >= limit::DISCOVERED_RECIPES_MAX {
                self.discovered.clear();
            }
            self.discovered.insert(id, Arc::new(recipe));
        }
    }
}
