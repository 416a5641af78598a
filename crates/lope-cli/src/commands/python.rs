//! Python in commands: `app.py:welcome` becomes definitions, by `python -m lope compile`; modules
//! become a pool of worker processes. Which Python: `--python-bin`, that of VIRTUAL_ENV, the one
//! this command was installed with, `python3`.

pub(crate) mod remote;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Ended, Stdio};
use std::sync::Arc;

use clap::Args;
use lope::executors::inherited;
use lope::runs::RunStartOptions;
use lope::workers::Logs;
use lope::workers::{Pool, PoolSettings, WorkerProgram};
use lope::workflows::Definition;
use lope::workflows::Plan;
use lope::{InheritedEnvironment, Settings as EngineSettings};
use lope_model::{Failure, Realm, Span, Value, value};
use lope_remote::{Attached, CommandCall, Need};
use serde_json::Value as Json;

use super::workflow_file;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::counted;

/// How long an action waits for a worker from elsewhere that serves it.
const REMOTE_WAIT: Span = Span::from_secs(30);

/// What the realm of a module begins with.
const REALM: &str = "python:";

/// How actions written in Python are run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PythonArgs {
    /// The Python to use  [default: that of VIRTUAL_ENV, else python3]
    #[arg(long, value_name = "PATH", env = "LOPE_PYTHON")]
    python_bin: Option<PathBuf>,
    /// Python processes  [default: one per core]
    #[arg(long, value_name = "N")]
    processes: Option<usize>,
    /// Actions that one Python process does at once  [default: 128]
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Replace a Python process after so many actions
    #[arg(long, value_name = "N")]
    recycle_after: Option<u64>,
}

/// A module to load: a file's folder goes to the front of the path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Module {
    name: String,
    folder: Option<PathBuf>,
}

/// A workflow in a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PythonWorkflow {
    pub(crate) module: Module,
    workflow: String,
}

/// What a workflow in Python became.
#[derive(Debug)]
struct Bundle {
    /// The workflow, then those it starts.
    plans: Vec<Arc<Plan>>,
    input: Value,
}

impl Module {
    /// `app`, `package.app`, `app.py` or `folder/app.py`.
    pub(crate) fn parse(text: &str) -> CliResult<Self> {
        let (stem, folder) = match text.strip_suffix(".py") {
            Some(path) => {
                let path = Path::new(path);
                let folder = path
                    .parent()
                    .filter(|folder| !folder.as_os_str().is_empty())
                    .unwrap_or(Path::new("."));
                (
                    path.file_name()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned(),
                    Some(folder.to_owned()),
                )
            }
            None => (text.to_owned(), None),
        };
        if !stem.split('.').all(is_identifier) || (folder.is_some() && stem.contains('.')) {
            let message = format!("'{text}' is no Python module");
            return Err(
                CliError::usage(message).hint("write it as app, package.app or folder/app.py")
            );
        }
        Ok(Self { name: stem, folder })
    }

    /// The module whose workflows have this realm, looked for where Python looks.
    pub(crate) fn of_realm(realm: &Realm) -> Option<Self> {
        let name = realm.as_str().strip_prefix(REALM)?;
        Some(Self {
            name: name.to_owned(),
            folder: None,
        })
    }

    /// What a runner must serve to take runs of its workflows.
    pub(crate) fn realm(&self) -> CliResult<Realm> {
        Realm::parse(&format!("{REALM}{}", self.name))
            .map_err(|error| CliError::usage(error.to_string()))
    }
}

impl PythonWorkflow {
    fn of(module: &Module, workflow: &str) -> Self {
        Self {
            module: module.clone(),
            workflow: workflow.to_owned(),
        }
    }

    /// `app.py:welcome` or `package.app:welcome`; nothing if the text does not look like one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (module, workflow) = text.rsplit_once(':')?;
        let module = Module::parse(module).ok()?;
        is_identifier(workflow).then(|| Self {
            module,
            workflow: workflow.to_owned(),
        })
    }
}

/// Is it a file of Python's?
fn is_python(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "py")
}

impl fmt::Display for PythonWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.module.folder {
            None => write!(f, "{}:{}", self.module.name, self.workflow),
            Some(folder) => {
                let file = folder.join(format!("{}.py", self.module.name));
                write!(f, "{}:{}", file.display(), self.workflow)
            }
        }
    }
}

fn is_identifier(text: &str) -> bool {
    let mut letters = text.chars();
    letters
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
}

impl PythonArgs {
    /// Definitions and input of a workflow, or what the compiler says about it.
    fn compile(&self, target: &PythonWorkflow, input: Option<&Value>) -> CliResult<Bundle> {
        self.asked(target, "--bundle", input)
    }

    pub(crate) fn definitions(&self, target: &PythonWorkflow) -> CliResult<Vec<Arc<Plan>>> {
        self.asked(target, "--all", None).map(|bundle| bundle.plans)
    }

    /// The workflows of a module, each with how it is called.
    fn listed(&self, module: &Module) -> CliResult<Vec<(String, String)>> {
        let said = self.told(module, "--list", &module.name, "null")?;
        let found: Vec<[String; 2]> = serde_json::from_str(&said).map_err(|error| {
            let message = format!("the compiler of Python said what is no list: {error}");
            CliError::new(Exit::Bug, message)
        })?;
        Ok(found.into_iter().map(|[name, call]| (name, call)).collect())
    }

    /// A file without the name of a workflow in it: which there are.
    pub(crate) fn unnamed(&self, file: &Path) -> Option<CliError> {
        let shown = file.display().to_string();
        let module = Module::parse(&shown).ok().filter(|_| is_python(file))?;
        let known = match self.listed(&module) {
            Ok(known) => known,
            Err(error) => return Some(error),
        };
        let Some((first, _)) = known.first() else {
            return Some(CliError::usage(format!("there is no @workflow in {shown}")));
        };
        let calls = known.iter().map(|(_, call)| format!("\n  {call}"));
        let message = format!(
            "{shown} has {}; say which:{}",
            counted(known.len() as u64, "workflow"),
            calls.collect::<String>()
        );
        Some(CliError::usage(message).hint(format!("write {shown}:{first}")))
    }

    /// The workflows that a text names: one of a module, or all of it.
    pub(crate) fn targets(&self, file: &Path) -> CliResult<Vec<PythonWorkflow>> {
        let text = file.to_string_lossy();
        if let Some(target) = PythonWorkflow::parse(&text) {
            return Ok(vec![target]);
        }
        if !is_python(file) {
            return Ok(Vec::new());
        }
        let module = Module::parse(&text)?;
        let known = self.listed(&module)?;
        if known.is_empty() {
            return Err(CliError::usage(format!("there is no @workflow in {text}")));
        }
        let named = |(name, _): &(String, String)| PythonWorkflow::of(&module, name);
        Ok(known.iter().map(named).collect())
    }

    fn asked(
        &self,
        target: &PythonWorkflow,
        how: &str,
        input: Option<&Value>,
    ) -> CliResult<Bundle> {
        let given = input.map_or_else(|| "null".to_owned(), Value::to_string);
        let named = format!("{}:{}", target.module.name, target.workflow);
        read_bundle(&self.told(&target.module, how, &named, &given)?, target)
    }

    /// What `python -m lope compile` prints, here or where the command was typed.
    fn told(&self, module: &Module, how: &str, named: &str, given: &str) -> CliResult<String> {
        let Some(call) = CommandCall::current() else {
            return self.compiled(module, how, named, given);
        };
        workflow_file::may_deploy()?;
        let need = Need::Python {
            how: how.to_owned(),
            folder: module
                .folder
                .as_ref()
                .map(|folder| folder.to_string_lossy().into_owned()),
            named: named.to_owned(),
            input: given.to_owned(),
        };
        match call.given(need) {
            Some(Attached::Bytes(text)) => Ok(String::from_utf8_lossy(text).into_owned()),
            Some(Attached::Nothing { message, hint }) => {
                let error = CliError::usage(message);
                Err(match hint {
                    Some(hint) => error.hint(hint),
                    None => error,
                })
            }
            None => Err(CliError::usage("it is asked for")),
        }
    }

    /// What the compiler says about a module that a command line names, for a server that asks.
    pub(crate) fn answer(&self, words: &[String], need: &Need) -> Option<Attached> {
        let Need::Python {
            how,
            folder,
            named,
            input,
        } = need
        else {
            return None;
        };
        let name = named.split(':').next().unwrap_or_default();
        let is_meant = |module: &Module| {
            let asked = folder.as_deref().map(Path::new);
            module.name == name && module.folder.as_deref() == asked
        };
        let typed = words.iter().filter_map(|word| {
            let workflow = PythonWorkflow::parse(word).map(|it| it.module);
            workflow.or_else(|| Module::parse(word).ok())
        });
        let module = typed.into_iter().find(is_meant)?;
        let known = ["--bundle", "--all", "--list"].contains(&how.as_str());
        known.then(|| match self.compiled(&module, how, named, input) {
            Ok(text) => Attached::Bytes(text.into_bytes()),
            Err(error) => {
                let (message, hint) = error.words();
                Attached::Nothing { message, hint }
            }
        })
    }

    /// The same with this interpreter.
    pub(crate) fn by(python_bin: Option<PathBuf>) -> Self {
        Self {
            python_bin,
            ..Self::default()
        }
    }

    fn compiled(&self, module: &Module, how: &str, named: &str, given: &str) -> CliResult<String> {
        let interpreter = self.interpreter();
        let mut command = Command::new(&interpreter);
        command.args(["-m", "lope", "compile", how]);
        if let Some(folder) = &module.folder {
            command.arg("--path").arg(folder);
        }
        command.arg(named);
        let ended = fed(&mut command, given).map_err(|error| missing(&interpreter, &error))?;
        if !ended.status.success() {
            return Err(refused(&interpreter, &ended));
        }
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }

    /// The workflow and those it starts; the input of `options` becomes what its parameters ask
    /// for.
    pub(crate) fn bundle(
        &self,
        target: &PythonWorkflow,
        options: &mut RunStartOptions,
    ) -> CliResult<Vec<Arc<Plan>>> {
        let bundle = self.compile(target, options.input.as_ref())?;
        options.input = options.input.as_ref().map(|_| bundle.input);
        Ok(bundle.plans)
    }

    /// The plan of a workflow in Python; nothing if the text names something else.
    pub(crate) fn plan(&self, file: &Path) -> CliResult<Option<Arc<Plan>>> {
        match PythonWorkflow::parse(&file.to_string_lossy()) {
            Some(target) => Ok(self.definitions(&target)?.into_iter().next()),
            None => self.unnamed(file).map_or(Ok(None), Err),
        }
    }

    /// The plans of workflow files and of workflows in Python. All are read first: one bad one, and
    /// there are none.
    pub(crate) fn plans(&self, files: &[PathBuf]) -> CliResult<Vec<Arc<Plan>>> {
        let mut plans = Vec::new();
        for file in files {
            match PythonWorkflow::parse(&file.to_string_lossy()) {
                None => plans.push(workflow_file::read(file)?),
                Some(target) => plans.extend(self.definitions(&target)?),
            }
        }
        Ok(plans)
    }

    /// A pool for these modules, if there are any or workers from elsewhere may come, and an engine
    /// that takes their runs.
    pub(crate) async fn serve(
        &self,
        modules: &[Module],
        remote: bool,
        settings: &Settings,
        mut engine: EngineSettings,
    ) -> CliResult<(Option<Arc<Pool>>, EngineSettings)> {
        if modules.is_empty() && !remote {
            return Ok((None, engine));
        }
        for module in modules {
            engine.realms.push(module.realm()?);
        }
        Ok((
            Some(
                self.pool(modules, remote, &settings.logs, inherited(&settings.config))
                    .await?
                    .0,
            ),
            engine,
        ))
    }

    /// A pool whose processes have loaded these modules, and the actions that it knows.
    pub(crate) async fn pool(
        &self,
        modules: &[Module],
        remote: bool,
        logs: &Path,
        inherited: InheritedEnvironment,
    ) -> CliResult<(Arc<Pool>, BTreeSet<Arc<str>>)> {
        let mut wanted = self.settings(modules, remote);
        wanted.program.inherited = inherited;
        let pool = Pool::begin(
            wanted,
            tokio::runtime::Handle::current(),
            Logs::at(logs.to_owned()),
        );
        let pool = pool.map_err(|error| {
            CliError::new(Exit::Bug, format!("no place for worker processes: {error}"))
        })?;
        let actions = pool.ready().await.map_err(|why| unready(&why))?;
        Ok((Arc::new(pool), actions))
    }

    /// The same, with no more processes and slots than so many actions at once need, unless they
    /// are asked for.
    pub(crate) fn for_so_many(&self, at_once: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let (processes, slots) = (
            self.processes.or(Some(cores.min(at_once))),
            self.slots.or(Some(at_once)),
        );
        Self {
            processes,
            slots,
            ..self.clone()
        }
    }

    /// The same, with so many processes unless the user said how many.
    pub(crate) fn with_processes(&self, processes: usize) -> Self {
        Self {
            processes: self.processes.or(Some(processes)),
            ..self.clone()
        }
    }

    fn settings(&self, modules: &[Module], remote: bool) -> PoolSettings {
        let names: Vec<String> = modules.iter().map(|module| module.name.clone()).collect();
        let folders: Vec<PathBuf> = modules
            .iter()
            .filter_map(|module| module.folder.clone())
            .collect();
        let defaults = PoolSettings::default();
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let processes = if modules.is_empty() {
            0
        } else {
            self.processes.unwrap_or(cores).max(1)
        };
        PoolSettings {
            processes,
            slots: self.slots.unwrap_or(defaults.slots).max(1),
            recycle_after: self.recycle_after,
            remote_wait: remote.then_some(REMOTE_WAIT),
            program: WorkerProgram::python(self.interpreter(), &names, &folders),
            ..defaults
        }
    }

    fn interpreter(&self) -> PathBuf {
        if let Some(path) = &self.python_bin {
            return path.clone();
        }
        let of_environment =
            std::env::var_os("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin/python"));
        let beside = std::env::current_exe()
            .ok()
            .and_then(|path| Some(path.parent()?.join("python")));
        let found = of_environment
            .into_iter()
            .chain(beside)
            .find(|path| path.is_file());
        found.unwrap_or_else(|| "python3".into())
    }
}

fn fed(command: &mut Command, input: &str) -> std::io::Result<Ended> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that fails early does not read its input.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

fn missing(interpreter: &Path, error: &std::io::Error) -> CliError {
    let message = format!("'{}' cannot be started: {error}", interpreter.display());
    let hint = match error.kind() {
        ErrorKind::NotFound => "install Python 3.10 or newer, or name one with --python-bin",
        _ => "name another Python with --python-bin",
    };
    CliError::usage(message).hint(hint)
}

fn refused(interpreter: &Path, ended: &Ended) -> CliError {
    let said = String::from_utf8_lossy(&ended.stderr).trim_end().to_owned();
    let shown = interpreter.display();
    if said.contains("No module named lope") {
        let message = format!("'{shown}' does not have the package lope");
        return CliError::usage(message)
            .hint("install it there: pip install lope; or name another with --python-bin");
    }
    CliError::usage(if said.is_empty() {
        format!("'{shown}' could not compile it")
    } else {
        said
    })
}

/// Why no worker could begin, with the traceback if there is one.
fn unready(why: &Failure) -> CliError {
    let text = why
        .traceback
        .as_deref()
        .map_or_else(String::new, |traceback| {
            format!("\n{}", traceback.trim_end())
        });
    let error = CliError::usage(format!("{}{text}", why.message));
    if why.message.contains("No module named lope")
        || why.message.contains("needs the package msgpack")
    {
        return error
            .hint("install it there: pip install lope; or name another Python with --python-bin");
    }
    error
}

fn read_bundle(text: &str, target: &PythonWorkflow) -> CliResult<Bundle> {
    let bad = |what: String| {
        CliError::new(
            Exit::Bug,
            format!("the compiler of Python said what is no bundle: {what}"),
        )
    };
    let bundle: Json = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
    let definitions = bundle["definitions"]
        .as_array()
        .ok_or_else(|| bad("no definitions".into()))?;
    let input =
        value::from_json(&bundle["input"].to_string()).map_err(|error| bad(error.to_string()))?;
    Ok(Bundle {
        plans: plans_of(definitions, &target.module)?,
        input,
    })
}

/// Definitions that the compiler of Python made, of workflows of a module.
pub(crate) fn plans_of(definitions: &[Json], module: &Module) -> CliResult<Vec<Arc<Plan>>> {
    let bad = |what: String| {
        CliError::new(
            Exit::Bug,
            format!("the compiler of Python made a bad definition: {what}"),
        )
    };
    let realm = module.realm()?;
    definitions
        .iter()
        .map(|definition| {
            let mut definition = Definition::from_json(&definition.to_string())
                .map_err(|error| bad(error.to_string()))?;
            definition.realm = Some(realm.as_str().into());
            let plan = Plan::new(&definition);
            let all = |problems: &[lope::workflows::Problem]| {
                problems
                    .iter()
                    .map(|problem| problem.message.clone())
                    .collect::<Vec<_>>()
                    .join("; ")
            };
            plan.map(Arc::new).map_err(|problems| bad(all(&problems)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_files_or_modules() {
        let target = |text| {
            PythonWorkflow::parse(text).map(|it| (it.module.name, it.module.folder, it.workflow))
        };
        let folder = |path: &str| Some(PathBuf::from(path));
        assert_eq!(
            target("app.py:welcome"),
            Some(("app".into(), folder("."), "welcome".into()))
        );
        assert_eq!(
            target("a/b/app.py:Welcome"),
            Some(("app".into(), folder("a/b"), "Welcome".into()))
        );
        assert_eq!(
            target("pkg.app:welcome"),
            Some(("pkg.app".into(), None, "welcome".into()))
        );
        for other in [
            "hello.yaml",
            "app.py",
            "a/hello.yaml:x",
            "app.py:",
            "app.py:1x",
            "a-b:x",
        ] {
            assert_eq!(target(other), None, "{other}");
        }
    }

    #[test]
    fn a_module_has_its_realm() {
        assert_eq!(
            Module::parse("x/app.py").unwrap().realm().unwrap().as_str(),
            "python:app"
        );
        assert!(Module::parse("x/a.b.py").is_err() && Module::parse("").is_err());
    }
}
