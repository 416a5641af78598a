//! Recipes written in Rust: cells by name, nodes between them, and the document that follows.

use lope_cells::json::{Json, Object};

use super::{BadRecipe, Recipe};

/// A recipe in the making. What its methods give for a cell is put among the inputs of nodes, or
/// named as the place of an output.
#[derive(Clone, Debug, Default)]
pub struct RecipeBuilder {
    fields: Object,
    internal: Object,
    nodes: Vec<Json>,
}

impl RecipeBuilder {
    pub fn new() -> Self {
        Self::default()
    }

    /// What the recipe calls itself.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.fields.insert("name".into(), name.into());
        self
    }

    /// A JSON Schema of the argument; its defaults fill in.
    #[must_use]
    pub fn argument_schema(mut self, schema: Json) -> Self {
        self.fields.insert("argumentSchema".into(), schema);
        self
    }

    /// An entry of the argument.
    pub fn argument(&self, name: &str) -> Json {
        alias(&["argument", name])
    }

    /// An entry of the internal state.
    pub fn internal(&self, name: &str) -> Json {
        alias(&["internal", name])
    }

    /// All of the internal state.
    pub fn all_internal(&self) -> Json {
        alias(&["internal"])
    }

    /// What an entry of the internal state is when the recipe starts.
    pub fn initial(&mut self, name: &str, value: impl Into<Json>) {
        self.internal.insert(name.into(), value.into());
    }

    /// A stream in the internal state. A function with it among its inputs handles its events.
    pub fn stream(&mut self, name: &str) -> Json {
        self.initial(name, Json::object([("$stream", Json::Bool(true))]));
        self.internal(name)
    }

    /// A function in Rust, by the name it has among the modules.
    pub fn native<'a>(
        &mut self,
        function: &str,
        inputs: impl IntoIterator<Item = (&'a str, Json)>,
        output: &Json,
    ) {
        let module = module("native", function.into());
        self.node(module, Json::object(inputs), output);
    }

    /// A function in JavaScript.
    pub fn javascript<'a>(
        &mut self,
        source: &str,
        inputs: impl IntoIterator<Item = (&'a str, Json)>,
        output: &Json,
    ) {
        let module = module("javascript", source.into());
        self.node(module, Json::object(inputs), output);
    }

    /// A function in JavaScript that is called with an event and with cells.
    pub fn handler<'a>(
        &mut self,
        stream: &Json,
        cells: impl IntoIterator<Item = (&'a str, Json)>,
        source: &str,
    ) {
        let context = Json::object(cells);
        let keys = context.as_object().into_iter().flat_map(Object::keys);
        let as_cell = Json::object([("asCell", Json::Bool(true))]);
        let properties = Json::object(keys.map(|key| (key.clone(), as_cell.clone())));
        let fields = [
            ("type", Json::from("javascript")),
            ("wrapper", Json::from("handler")),
            ("argumentSchema", Json::object([("properties", properties)])),
            ("implementation", Json::from(source)),
        ];
        let inputs = Json::object([("$event", stream.clone()), ("$ctx", context)]);
        self.node(Json::object(fields), inputs, &Json::object::<&str>([]));
    }

    /// A module by name: `ifElse`, `map`, `filter`, `effect`, or one of the caller's.
    pub fn call<'a>(
        &mut self,
        name: &str,
        inputs: impl IntoIterator<Item = (&'a str, Json)>,
        output: &Json,
    ) {
        self.node(module("ref", name.into()), Json::object(inputs), output);
    }

    /// Another recipe, in a process of its own; the output links to its result.
    pub fn nested<'a>(
        &mut self,
        recipe: &Recipe,
        inputs: impl IntoIterator<Item = (&'a str, Json)>,
        output: &Json,
    ) {
        let module = module("recipe", recipe.document.clone());
        self.node(module, Json::object(inputs), output);
    }

    /// A durable run of a deployed workflow; `input` may be a cell or hold cells.
    pub fn workflow(&mut self, workflow: &str, input: Json, output: &Json) {
        self.node(module("workflow", workflow.into()), input, output);
    }

    /// A node of any kind.
    pub fn node(&mut self, module: Json, inputs: Json, output: &Json) {
        let fields = [
            ("module", module),
            ("inputs", inputs),
            ("outputs", output.clone()),
        ];
        self.nodes.push(Json::object(fields));
    }

    /// What the result cell holds.
    #[must_use]
    pub fn result<'a>(mut self, cells: impl IntoIterator<Item = (&'a str, Json)>) -> Self {
        self.fields.insert("result".into(), Json::object(cells));
        self
    }

    /// The recipe, checked.
    pub fn build(mut self) -> Result<Recipe, BadRecipe> {
        if !self.internal.is_empty() {
            let initial = Json::object([("internal", Json::Object(self.internal))]);
            self.fields.insert("initial".into(), initial);
        }
        self.fields.insert("nodes".into(), Json::array(self.nodes));
        let document = Json::Object(self.fields);
        match Recipe::problems(&document).into_iter().next() {
            Some(problem) => Err(problem),
            None => Recipe::parse(&document),
        }
    }
}

fn module(kind: &str, implementation: Json) -> Json {
    Json::object([
        ("type", Json::from(kind)),
        ("implementation", implementation),
    ])
}

fn alias(path: &[&str]) -> Json {
    let path = Json::array(path.iter().map(|key| Json::from(*key)));
    Json::object([("$alias", Json::object([("path", path)]))])
}
