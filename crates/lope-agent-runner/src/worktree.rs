//! Worktrees of git: an agent's own checkout of its project, on a branch of its own, with what it
//! changed there. One goes only when nothing in it would be lost: no change that is not committed,
//! also where git was told not to look, no file that git ignores, and no commit that is on no other
//! branch.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use lope_model::id::TaskId;
use tokio::process::Command;

/// Most bytes of a diff that is shown.
pub const DIFF_MAX: usize = 1024 * 1024;
/// Most new files whose contents a diff shows.
const NEW_FILES_MAX: usize = 200;
/// What is told where there is nothing to make a worktree from.
const NEEDED: &str = "runners.worktrees is on, and needs a checkout of git with a commit: \
    'git init' and 'git commit' in the project's folder make one, or turn it off";
/// The branches of worktrees.
const BRANCHES: &str = "refs/heads/lope/";
/// The mode of a submodule in the index of git.
const SUBMODULE: &str = "160000 ";

/// Why git did not do something, in its words.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct GitError(String);

impl GitError {
    /// What git was not even asked for.
    pub fn told(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

type GitResult<T> = Result<T, GitError>;

/// What becomes of a worktree that is no longer needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Removal {
    Removed,
    /// It stays, and why.
    Kept(String),
}

/// The worktrees of tasks, below a folder.
#[derive(Clone, Debug)]
pub struct Worktrees {
    folder: PathBuf,
}

impl Worktrees {
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// A checkout of the project as it is committed now, for one attempt; where its agent works.
    pub async fn make(&self, project: &Path, task: TaskId, number: i64) -> GitResult<PathBuf> {
        let Origin { top, prefix, base } = origin(project)
            .await
            .map_err(|GitError(said)| GitError(format!("{said} ({NEEDED})")))?;
        let folder = self.folder.join(task.to_string());
        std::fs::create_dir_all(&folder)
            .map_err(|error| GitError(format!("{}: {error}", folder.display())))?;
        let top = Path::new(&top);
        let taken = text(top, &["for-each-ref", "--format=%(refname)", BRANCHES]).await?;
        let branch_of = |name: &str| format!("lope/{task}/{name}");
        // A runner that died may have made one that nobody knows of; a branch whose folder is gone
        // may hold commits that nobody else has.
        let free = (0..).map(|again| match again {
            0 => number.to_string(),
            again => format!("{number}-{again}"),
        });
        let mut free = free.filter(|name| {
            let branch = format!("refs/heads/{}", branch_of(name));
            !folder.join(name).exists() && !taken.lines().any(|line| line == branch)
        });
        let name = free.next().expect("names do not end");
        let path = folder.join(&name);
        let shown = path.display().to_string();
        let branch = branch_of(&name);
        let add = ["worktree", "add", "--quiet", "-b", &branch, &shown, &base];
        if let Err(error) = git(top, &add).await {
            discard(top, &shown, &branch).await;
            return Err(error);
        }
        Ok(path.join(prefix).components().collect())
    }

    /// The worktrees of a task that are there, whether an attempt knows of them or not.
    pub fn made(&self, task: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.join(task));
        let paths = entries.into_iter().flatten().flatten();
        let paths = paths.map(|entry| entry.path());
        paths.filter(|path| path.is_dir()).collect()
    }
}

/// What a worktree is made from.
struct Origin {
    top: String,
    /// Where the project is below it.
    prefix: String,
    base: String,
}

async fn origin(project: &Path) -> GitResult<Origin> {
    Ok(Origin {
        top: text(project, &["rev-parse", "--show-toplevel"]).await?,
        prefix: text(project, &["rev-parse", "--show-prefix"]).await?,
        base: text(project, &["rev-parse", "--verify", "HEAD^{commit}"]).await?,
    })
}

/// Take away what is left of a worktree that could not be made whole, because a hook of the repository
/// failed or the disk is full. Nobody has worked in it; its branch goes only if it holds nothing.
async fn discard(top: &Path, worktree: &str, branch: &str) {
    // What was not made is not there.
    let _ = git(top, &["worktree", "remove", "--force", worktree]).await;
    let _ = git(top, &["branch", "-q", "-d", branch]).await;
    if let Some(folder) = Path::new(worktree).parent() {
        let _ = std::fs::remove_dir(folder);
    }
}

/// What was changed in a worktree since it left the project's branch, whether it is committed or not.
pub async fn diff(worktree: &Path, project: &Path) -> GitResult<String> {
    let ours = text(project, &["rev-parse", "--verify", "HEAD^{commit}"]).await?;
    let base = text(worktree, &["merge-base", "HEAD", &ours]).await?;
    let top = text(worktree, &["rev-parse", "--show-toplevel"]).await?;
    let top = Path::new(&top);
    let options = ["--no-color", "--no-ext-diff", "--no-textconv"];
    let known = [&["diff"], &options[..], &[base.as_str()]].concat();
    let mut shown = git(top, &known).await?;
    let new = git(top, &["ls-files", "--others", "--exclude-standard", "-z"]).await?;
    for file in new
        .split('\0')
        .filter(|file| !file.is_empty())
        .take(NEW_FILES_MAX)
    {
        if shown.len() > DIFF_MAX {
            break;
        }
        let of_new = [
            &["diff", "--no-index"],
            &options[..],
            &["--", "/dev/null", file],
        ]
        .concat();
        // It ends with 1 when there is a difference, which there is.
        let output = run(top, &of_new).await?;
        shown.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    Ok(cut(shown))
}

fn cut(mut text: String) -> String {
    if text.len() > DIFF_MAX {
        let end = (0..=DIFF_MAX).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        text.push_str("\n… (the rest is left out)\n");
    }
    text
}

/// Take a worktree away if nothing in it would be lost.
pub async fn remove(worktree: &Path, project: &Path) -> GitResult<Removal> {
    let kept = |why: &str| Ok(Removal::Kept(why.to_owned()));
    let top = text(worktree, &["rev-parse", "--show-toplevel"]).await?;
    let top = Path::new(&top);
    let ours = text(project, &["rev-parse", "--show-toplevel"]).await?;
    if top == Path::new(&ours) {
        return kept("it is the project itself");
    }
    // Whatever the settings of the repository say.
    let all = ["--untracked-files=all", "--ignore-submodules=none"];
    let status = [&["status", "--porcelain"], &all[..]].concat();
    if !git(top, &status).await?.is_empty() {
        return kept("it has changes that are not committed");
    }
    if let Some(why) = unseen(top).await? {
        return kept(&why);
    }
    let ignored = ["ls-files", "--others", "--ignored", "--exclude-standard"];
    let ignored = [&ignored[..], &["--directory"]].concat();
    // A checkout has none of them: the agent made them, and no branch has them.
    if let Some(first) = git(top, &ignored).await?.lines().next() {
        return kept(&format!("it has files that git ignores: {first}"));
    }
    let branch = text(top, &["symbolic-ref", "--quiet", "HEAD"]).await;
    let branch = branch.unwrap_or_default();
    let holders = ["for-each-ref", "--format=%(refname)", "--contains", "HEAD"];
    let holders = [&holders[..], &["refs/heads", "refs/remotes"]].concat();
    let holders = git(top, &holders).await?;
    if !holders.lines().any(|name| name != branch) {
        return kept("it has commits that are on no other branch");
    }
    let shown = top.display().to_string();
    // Without force: git itself refuses one that is not clean or is locked.
    git(project, &["worktree", "remove", &shown]).await?;
    if let Some(name) = branch.strip_prefix("refs/heads/lope/") {
        // What it held is on another branch.
        git(project, &["branch", "-q", "-D", &format!("lope/{name}")]).await?;
    }
    if let Some(folder) = top.parent() {
        // Only if it is empty.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(Removal::Removed)
}

/// Why there may be work in a worktree of which `git status` says nothing: in a file that git was told
/// to take as unchanged, or in the folder of a submodule that is not checked out. Neither is so in a new
/// worktree; files that a sparse checkout leaves out are not there.
async fn unseen(top: &Path) -> GitResult<Option<String>> {
    let entries = git(top, &["ls-files", "-v", "--stage", "-z"]).await?;
    for entry in entries.split('\0').filter(|entry| !entry.is_empty()) {
        let parts = entry.split_once('\t').and_then(|(how, file)| {
            let (tag, mode) = how.split_once(' ')?;
            Some((tag, mode, file))
        });
        let Some((tag, mode, file)) = parts else {
            return Ok(Some(format!("git says of it: {entry}")));
        };
        let path = top.join(file);
        // A name that is no text is shown with other letters.
        let is_unclear = file.contains(char::REPLACEMENT_CHARACTER);
        let is_hidden = match tag {
            "S" => is_unclear || !is_missing(&path),
            tag => tag.starts_with(|letter: char| letter.is_ascii_lowercase()),
        };
        if is_hidden {
            let why = format!("git was told not to look for changes of {file}");
            return Ok(Some(why));
        }
        if mode.starts_with(SUBMODULE) && (is_unclear || !is_empty(&path)) {
            let why = format!("there are files in the folder of the submodule {file}");
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// Whatever cannot be read may be there.
fn is_missing(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

fn is_empty(folder: &Path) -> bool {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => is_missing(folder),
    }
}

/// What git says, without the line's end.
async fn text(folder: &Path, arguments: &[&str]) -> GitResult<String> {
    let said = git(folder, arguments).await?;
    Ok(said.trim_end_matches('\n').to_owned())
}

async fn git(folder: &Path, arguments: &[&str]) -> GitResult<String> {
    let output = run(folder, arguments).await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let what = arguments.first().unwrap_or(&"");
    let said = said.trim();
    let said = if said.is_empty() {
        output.status.to_string()
    } else {
        said.to_owned()
    };
    Err(GitError(format!("git {what}: {said}")))
}

async fn run(folder: &Path, arguments: &[&str]) -> GitResult<std::process::Output> {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(folder)
        // Nothing that an agent wrote into the settings of the repository is run.
        .args(["-c", "core.fsmonitor=false"])
        .args(arguments)
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        // What a hook of git's leaves in the environment is about another repository.
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await;
    output.map_err(|error| GitError(format!("git: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Repository {
        folder: tempfile::TempDir,
    }

    impl Repository {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let repository = Self { folder };
            let project = repository.project();
            std::fs::create_dir(&project).unwrap();
            git(&project, &["init", "-q", "-b", "main"]).await.unwrap();
            std::fs::write(project.join("a.txt"), "one\n").unwrap();
            repository.commit(&project, "begin").await;
            repository
        }

        fn project(&self) -> PathBuf {
            self.folder.path().join("project")
        }

        fn worktrees(&self) -> Worktrees {
            Worktrees::at(self.folder.path().join("worktrees"))
        }

        async fn commit(&self, folder: &Path, words: &str) {
            git(folder, &["add", "-A"]).await.unwrap();
            let who = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
            let commit = [&who[..], &["commit", "-q", "-m", words]].concat();
            git(folder, &commit).await.unwrap();
        }
    }

    fn task() -> TaskId {
        "a1b2c3d4-e5f6-7890-abcd-ef1234567890".parse().unwrap()
    }

    #[tokio::test]
    async fn a_worktree_shows_what_was_changed_in_it_and_nothing_else() {
        let repository = Repository::new().await;
        let project = repository.project();
        let made = repository.worktrees().make(&project, task(), 1).await;
        let worktree = made.unwrap();
        assert_eq!(diff(&worktree, &project).await.unwrap(), "");
        std::fs::write(worktree.join("a.txt"), "two\n").unwrap();
        repository.commit(&worktree, "two").await;
        std::fs::write(worktree.join("new.txt"), "new\n").unwrap();
        std::fs::write(project.join("b.txt"), "beside\n").unwrap();
        repository.commit(&project, "beside").await;
        let shown = diff(&worktree, &project).await.unwrap();
        for line in ["-one", "+two", "+new"] {
            assert!(shown.lines().any(|it| it == line), "{shown}");
        }
        assert!(!shown.contains("beside"), "{shown}");
        assert_eq!(
            std::fs::read_to_string(project.join("a.txt")).unwrap(),
            "one\n"
        );
    }

    /// "never deleted while dirty or unpushed"
    #[tokio::test]
    async fn a_worktree_goes_only_when_nothing_is_lost() {
        let repository = Repository::new().await;
        let project = repository.project();
        let worktrees = repository.worktrees();
        let untouched = worktrees.make(&project, task(), 1).await.unwrap();
        assert_eq!(remove(&untouched, &project).await, Ok(Removal::Removed));
        assert!(!untouched.exists());
        let worktree = worktrees.make(&project, task(), 2).await.unwrap();
        let is_kept = |removal| matches!(removal, Ok(Removal::Kept(_)));
        std::fs::write(worktree.join("new.txt"), "new\n").unwrap();
        assert!(is_kept(remove(&worktree, &project).await), "dirty");
        repository.commit(&worktree, "new").await;
        assert!(is_kept(remove(&worktree, &project).await), "unpushed");
        std::fs::write(worktree.join(".gitignore"), "*.env\n").unwrap();
        repository.commit(&worktree, "ignore").await;
        assert!(worktree.join("new.txt").exists());
        let branch = text(&worktree, &["symbolic-ref", "--short", "HEAD"]).await;
        git(&project, &["merge", "-q", &branch.unwrap()])
            .await
            .unwrap();
        std::fs::write(worktree.join("made.env"), "kept").unwrap();
        let why = "it has files that git ignores: made.env".to_owned();
        assert_eq!(remove(&worktree, &project).await, Ok(Removal::Kept(why)));
        std::fs::remove_file(worktree.join("made.env")).unwrap();
        assert_eq!(remove(&worktree, &project).await, Ok(Removal::Removed));
        assert!(!worktree.exists() && project.join("new.txt").exists());
        assert!(
            is_kept(remove(&project, &project).await),
            "never the project"
        );
    }

    /// "never deleted while dirty": neither in a file that git was told to take as unchanged, nor in the
    /// folder of a submodule that is not checked out; `git status` says nothing of either.
    #[tokio::test]
    async fn work_of_which_git_says_nothing_is_not_lost() {
        let repository = Repository::new().await;
        let project = repository.project();
        std::fs::write(project.join("b.txt"), "two\n").unwrap();
        std::fs::create_dir(project.join("sm")).unwrap();
        let head = text(&project, &["rev-parse", "HEAD"]).await.unwrap();
        let submodule = format!("160000,{head},sm");
        let add = ["update-index", "--add", "--cacheinfo", &submodule];
        git(&project, &["add", "b.txt"]).await.unwrap();
        git(&project, &add).await.unwrap();
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        let commit = [&who[..], &["commit", "-q", "-m", "submodule"]].concat();
        git(&project, &commit).await.unwrap();
        let worktrees = repository.worktrees();
        let made = worktrees.make(&project, task(), 1).await;
        let worktree = made.unwrap();
        let kept = |why: &str| Ok(Removal::Kept(why.to_owned()));
        for (flag, undone) in [
            ("--assume-unchanged", "--no-assume-unchanged"),
            ("--skip-worktree", "--no-skip-worktree"),
        ] {
            git(&worktree, &["update-index", flag, "b.txt"])
                .await
                .unwrap();
            std::fs::write(worktree.join("b.txt"), "work\n").unwrap();
            let why = "git was told not to look for changes of b.txt";
            assert_eq!(remove(&worktree, &project).await, kept(why), "{flag}");
            git(&worktree, &["update-index", undone, "b.txt"])
                .await
                .unwrap();
            git(&worktree, &["checkout", "-q", "--", "b.txt"])
                .await
                .unwrap();
        }
        // What a sparse checkout leaves out is not there, and is not lost.
        git(&worktree, &["update-index", "--skip-worktree", "a.txt"])
            .await
            .unwrap();
        std::fs::remove_file(worktree.join("a.txt")).unwrap();
        std::fs::write(worktree.join("sm/work.txt"), "work").unwrap();
        let why = "there are files in the folder of the submodule sm";
        assert_eq!(remove(&worktree, &project).await, kept(why));
        std::fs::remove_file(worktree.join("sm/work.txt")).unwrap();
        assert_eq!(remove(&worktree, &project).await, Ok(Removal::Removed));
        assert!(!worktree.exists());
    }

    /// A worktree that could not be made is tried again and again: none of them stays.
    #[tokio::test]
    async fn what_is_left_of_a_worktree_that_cannot_be_made_goes() {
        let repository = Repository::new().await;
        let project = repository.project();
        let hook = project.join(".git/hooks/post-checkout");
        // Another process writes it: what somebody has open for writing cannot be started.
        let write = "mkdir -p .git/hooks; printf '#!/bin/sh\\n>made; echo no >&2; exit 1\\n' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout";
        let mut shell = Command::new("sh");
        shell.args(["-c", write]).current_dir(&project);
        assert!(shell.status().await.unwrap().success());
        let worktrees = repository.worktrees();
        for _ in 0..2 {
            let made = worktrees.make(&project, task(), 1).await;
            assert_eq!(made, Err(GitError("git worktree: no".to_owned())));
            let list = text(&project, &["worktree", "list", "--porcelain"]).await;
            let list = list.unwrap();
            let trees = list.lines().filter(|line| line.starts_with("worktree "));
            assert_eq!(trees.count(), 1, "{list}");
            let branches = ["for-each-ref", "--format=%(refname)", BRANCHES];
            assert_eq!(text(&project, &branches).await, Ok(String::new()));
            assert_eq!(worktrees.made(&task().to_string()), [] as [PathBuf; 0]);
        }
        std::fs::remove_file(hook).unwrap();
        let made = worktrees.make(&project, task(), 1).await.unwrap();
        assert_eq!(worktrees.made(&task().to_string()), [made]);
    }

    /// Whoever has turned worktrees on reads what they need, not only what git says.
    #[tokio::test]
    async fn a_project_without_a_commit_is_told_what_worktrees_need() {
        let folder = tempfile::tempdir().unwrap();
        let [plain, empty, bare] = ["plain", "empty", "bare"].map(|it| folder.path().join(it));
        for project in [&plain, &empty, &bare] {
            std::fs::create_dir(project).unwrap();
        }
        git(&empty, &["init", "-q"]).await.unwrap();
        git(&bare, &["init", "-q", "--bare"]).await.unwrap();
        let worktrees = Worktrees::at(folder.path().join("worktrees"));
        for (project, said) in [
            (plain, "not a git repository"),
            (empty, "Needed a single revision"),
            (bare, "must be run in a work tree"),
        ] {
            let made = worktrees.make(&project, task(), 1).await;
            let told = made.unwrap_err().to_string();
            assert!(told.contains(said), "{told}");
            for words in ["runners.worktrees is on", "'git commit'", "turn it off"] {
                assert!(told.contains(words), "{told}");
            }
        }
    }

    #[tokio::test]
    async fn a_project_within_a_repository_has_its_own_place_in_the_worktree() {
        let repository = Repository::new().await;
        let inner = repository.project().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("c.txt"), "c\n").unwrap();
        repository.commit(&repository.project(), "inner").await;
        let worktree = repository.worktrees().make(&inner, task(), 1).await;
        let worktree = worktree.unwrap();
        assert!(worktree.join("c.txt").is_file());
        let again = repository.worktrees().make(&inner, task(), 1).await;
        assert_ne!(again.unwrap(), worktree, "each has its own");
        let elsewhere = repository.worktrees();
        let elsewhere = elsewhere.make(repository.folder.path(), task(), 1).await;
        assert!(elsewhere.is_err(), "no repository");
    }
}
