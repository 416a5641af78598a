//! One connection to the server, and how statements travel over it: alone, or several in one
//! pipeline.
//!
//! A connection that failed to answer, or that was left in the middle of a transaction, is never
//! used again.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row};

use crate::failure::{self, Sent, Worked};
use crate::options::{Access, Pooler, PostgresOptions, SchemaName};
use crate::statement::{Params, Statement, filled, kinds};

/// A connection with the statements it has prepared.
pub(crate) struct DbConnection {
    client: Client,
    pooler: Pooler,
    access: Access,
    schema: SchemaName,
    statement_timeout: Duration,
    answer_timeout: Duration,
    ready: Mutex<HashMap<&'static str, Ready>>,
    /// Texts that came before, and what those are that came twice.
    repeated: Mutex<HashMap<String, Option<Ready>>>,
    spoilt: AtomicBool,
}

/// A statement that this connection can run.
#[derive(Clone)]
pub(crate) enum Ready {
    Prepared(tokio_postgres::Statement),
    /// Parsed anew each time: behind a pooler nothing is kept.
    Text(Arc<str>, Arc<[Type]>),
}

/// A statement to be read with others.
#[derive(Clone, Copy)]
pub(crate) enum ReadStatement<'a> {
    Kept(&'static Statement),
    Once { text: &'a str, types: &'a str },
}

/// How several reads look at the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// At some rows, through indexes.
    Rows,
    /// At whole tables.
    Whole,
    /// At some pages of a table and no other.
    Pages,
}

impl View {
    fn begin(self) -> &'static str {
        match self {
            Self::Rows => "begin isolation level repeatable read read only",
            Self::Whole => {
                "begin isolation level repeatable read read only; set local enable_seqscan = on;
                 set local enable_bitmapscan = on; set local max_parallel_workers_per_gather = 2;
                 set local enable_hashjoin = on; set local enable_mergejoin = on; set local search_path = pg_catalog"
            }
            Self::Pages => {
                "begin isolation level repeatable read read only; set local enable_seqscan = off"
            }
        }
    }
}

type Stage<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;

/// Statements sent together: the answers come in order, after one trip.
pub(crate) struct Pipeline<'a> {
    db: &'a DbConnection,
    stages: Vec<Stage<'a>>,
    sent: Sent,
    /// The transaction begins with the pipeline,
    begins: bool,
    /// and ends with it.
    ends: bool,
}

/// Texts that are remembered.
const REPEATED_MAX: usize = 256;

/// How often a text has come.
enum Repetition {
    First,
    Second,
    Kept(Ready),
}

impl DbConnection {
    pub(crate) fn new(client: Client, options: &PostgresOptions) -> Self {
        Self {
            client,
            pooler: options.pooler,
            access: options.access,
            schema: options.schema.clone(),
            statement_timeout: options.statement_timeout,
            answer_timeout: options.answer_timeout(),
            ready: Mutex::default(),
            repeated: Mutex::default(),
            spoilt: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.spoilt.load(Ordering::Relaxed)
    }

    /// Has the connection ended?
    pub(crate) fn is_cut(&self) -> bool {
        self.client.is_closed()
    }

    /// Never use this connection again.
    pub(crate) fn spoil(&self) {
        self.spoilt.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn ready(&self, statement: &'static Statement) -> Worked<Ready> {
        if let Some(ready) = self.known(statement.name) {
            return Ok(ready);
        }
        let text = statement.within(&self.schema);
        let types = kinds(statement.types);
        let ready = match self.pooler {
            Pooler::Transaction => Ready::Text(text.into(), types.into()),
            Pooler::None | Pooler::Detect => Ready::Prepared(self.prepare(&text, &types).await?),
        };
        self.ready
            .lock()
            .expect("nobody panics while holding it")
            .insert(statement.name, ready.clone());
        Ok(ready)
    }

    /// A statement of its own text that is kept when it comes for the second time: whoever connects
    /// for one command makes no trip for it.
    pub(crate) async fn repeated(&self, text: &str, types: &str) -> Worked<Ready> {
        match self.repetition(text) {
            Repetition::First => Ok(self.text(text, types)),
            Repetition::Kept(ready) => Ok(ready),
            Repetition::Second => {
                let whole = filled(text, &self.schema);
                let ready = Ready::Prepared(self.prepare(&whole, &kinds(types)).await?);
                self.repeated
                    .lock()
                    .expect("nobody panics while holding it")
                    .insert(text.to_owned(), Some(ready.clone()));
                Ok(ready)
            }
        }
    }

    /// How often a text came; one that is not kept is always new.
    fn repetition(&self, text: &str) -> Repetition {
        let mut repeated = self
            .repeated
            .lock()
            .expect("nobody panics while holding it");
        match repeated.get(text) {
            Some(Some(ready)) => Repetition::Kept(ready.clone()),
            Some(None) => Repetition::Second,
            None => {
                if repeated.len() < REPEATED_MAX && self.pooler != Pooler::Transaction {
                    repeated.insert(text.to_owned(), None);
                }
                Repetition::First
            }
        }
    }

    fn known(&self, name: &str) -> Option<Ready> {
        self.ready
            .lock()
            .expect("nobody panics while holding it")
            .get(name)
            .cloned()
    }

    async fn prepare(&self, text: &str, types: &[Type]) -> Worked<tokio_postgres::Statement> {
        let prepared = self.client.prepare_typed(text, types);
        self.answer(prepared, Sent::Work).await
    }

    /// One statement that only reads.
    pub(crate) async fn read(
        &self,
        statement: &'static Statement,
        params: Params<'_>,
    ) -> Worked<Vec<Row>> {
        let ready = self.ready(statement).await?;
        self.answer(run(&self.client, ready, params), Sent::Work)
            .await
    }

    /// One statement of its own text, one of few, that only reads.
    pub(crate) async fn read_repeated(
        &self,
        text: &str,
        types: &str,
        params: Params<'_>,
    ) -> Worked<Vec<Row>> {
        let ready = self.repeated(text, types).await?;
        self.answer(run(&self.client, ready, params), Sent::Work)
            .await
    }

    /// One statement of its own text, not kept, that only reads.
    pub(crate) async fn read_once(
        &self,
        text: &str,
        types: &str,
        params: Params<'_>,
    ) -> Worked<Vec<Row>> {
        self.answer(
            run(&self.client, self.text(text, types), params),
            Sent::Work,
        )
        .await
    }

    /// Several statements that read what is there at one moment; an answer to each.
    pub(crate) async fn read_together(
        &self,
        view: View,
        asked: &[(ReadStatement<'_>, Params<'_>)],
    ) -> Worked<Vec<Vec<Row>>> {
        let mut statements = Vec::with_capacity(asked.len());
        for (ask, params) in asked {
            let ready = match ask {
                ReadStatement::Kept(statement) => self.ready(statement).await?,
                ReadStatement::Once { text, types } => self.text(text, types),
            };
            statements.push((ready, params.clone()));
        }
        let mut pipeline = Pipeline::within(self);
        pipeline.simple(view.begin().to_owned());
        self.spoil();
        statements
            .into_iter()
            .for_each(|(ready, params)| pipeline.query(ready, params));
        pipeline.rollback();
        let mut answers = pipeline.run().await?;
        answers.remove(0);
        Ok(answers)
    }

    /// One statement that writes, in a transaction of its own, in one trip.
    pub(crate) async fn write(
        &self,
        statement: &'static Statement,
        params: Params<'_>,
    ) -> Worked<Vec<Row>> {
        let ready = self.ready(statement).await?;
        let mut pipeline = Pipeline::begin(self);
        pipeline.query(ready, params);
        pipeline.commit();
        let answers = pipeline.run().await?;
        Ok(answers.into_iter().nth(1).unwrap_or_default())
    }

    /// A statement of its own text, for a pipeline; not kept.
    pub(crate) fn text(&self, text: &str, types: &str) -> Ready {
        Ready::Text(filled(text, &self.schema).into(), kinds(types).into())
    }

    /// SQL text that begins a transaction: nobody else may use this connection until it has ended.
    pub(crate) async fn begin_script(&self, text: &str) -> Worked<()> {
        self.spoil();
        self.script(text, Sent::Work).await
    }

    /// The end of a transaction that [`DbConnection::begin_script`] began.
    pub(crate) async fn end_script(&self, text: &str) -> Worked<()> {
        self.script(text, Sent::Commit).await?;
        self.free();
        Ok(())
    }

    /// SQL text without parameters, several statements perhaps.
    pub(crate) async fn script(&self, text: &str, sent: Sent) -> Worked<()> {
        self.answer(self.client.batch_execute(&filled(text, &self.schema)), sent)
            .await
    }

    async fn answer<T>(
        &self,
        asked: impl Future<Output = Result<T, Error>>,
        sent: Sent,
    ) -> Worked<T> {
        match tokio::time::timeout(self.answer_timeout, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failure::fault(&error, sent)),
            Err(_) => {
                self.spoil();
                Err(failure::late(sent))
            }
        }
    }

    /// Nothing of a connection outlives a transaction behind a pooler, so each transaction brings
    /// its settings.
    fn begin_text(&self) -> String {
        let access = match self.access {
            Access::ReadWrite => "",
            Access::ReadOnly => " read only",
        };
        let begin = format!("begin isolation level read committed{access}");
        match self.pooler {
            Pooler::None | Pooler::Detect => begin,
            Pooler::Transaction => {
                format!(
                    "{begin}; set local statement_timeout = {}; \
                     set local idle_in_transaction_session_timeout = 10000; {DURABLE}",
                    self.statement_timeout.as_millis()
                )
            }
        }
    }
}

/// What is answered as done is on disk, whatever the server's default is.
pub(crate) const DURABLE: &str = "select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'";

impl<'a> Pipeline<'a> {
    /// A transaction begins with the pipeline.
    pub(crate) fn begin(db: &'a DbConnection) -> Self {
        let mut pipeline = Self::within(db);
        pipeline.begins = true;
        pipeline.simple(db.begin_text());
        // Until it is committed or rolled back, nobody else may use this connection.
        db.spoil();
        pipeline
    }

    /// A pipeline inside a transaction that an earlier one began.
    pub(crate) fn within(db: &'a DbConnection) -> Self {
        Self {
            db,
            stages: Vec::new(),
            sent: Sent::Work,
            begins: false,
            ends: false,
        }
    }

    pub(crate) fn query(&mut self, ready: Ready, params: Params<'a>) {
        self.stages
            .push(Box::pin(run(&self.db.client, ready, params)));
    }

    /// A statement that may have nothing to do; it is answered with nothing then, without being
    /// sent.
    pub(crate) fn query_unless(&mut self, idle: bool, ready: Ready, params: Params<'a>) {
        if idle {
            self.stages
                .push(Box::pin(std::future::ready(Ok(Vec::new()))));
        } else {
            self.query(ready, params);
        }
    }

    pub(crate) fn commit(&mut self) {
        self.simple("commit".to_owned());
        self.sent = Sent::Commit;
        self.ends = true;
    }

    pub(crate) fn rollback(&mut self) {
        self.simple("rollback".to_owned());
        self.ends = true;
    }

    fn simple(&mut self, text: String) {
        let client = &self.db.client;
        self.stages.push(Box::pin(async move {
            client.batch_execute(&text).await.map(|()| Vec::new())
        }));
    }

    /// Is this a transaction of one statement? The server begins and ends that by itself, with the
    /// settings of the connection; behind a pooler each transaction has to bring its own.
    fn is_one_statement(&self) -> bool {
        let is_whole = self.begins && self.sent == Sent::Commit && self.stages.len() == 3;
        is_whole && self.db.pooler != Pooler::Transaction
    }

    /// The statement between `begin` and `commit`, without these.
    async fn run_alone(self) -> Worked<Vec<Vec<Row>>> {
        let Self { db, stages, .. } = self;
        let statement = stages.into_iter().nth(1).expect("one of three");
        let Ok(answer) = tokio::time::timeout(db.answer_timeout, statement).await else {
            return Err(failure::late(Sent::Commit));
        };
        if !db.client.is_closed() {
            // Answered either way, and nothing is left open.
            db.free();
        }
        let rows = answer.map_err(|error| failure::fault(&error, Sent::Commit))?;
        Ok(vec![Vec::new(), rows, Vec::new()])
    }

    /// Send everything, then collect the answers, one for each stage. The first error counts; what
    /// follows it in the pipeline did not happen.
    pub(crate) async fn run(self) -> Worked<Vec<Vec<Row>>> {
        if self.is_one_statement() {
            return self.run_alone().await;
        }
        let Self {
            db,
            stages,
            sent,
            ends,
            ..
        } = self;
        let last = stages.len().saturating_sub(1);
        let Ok(answers) = tokio::time::timeout(db.answer_timeout, in_order(stages)).await else {
            return Err(failure::late(sent));
        };
        let mut rows = Vec::with_capacity(answers.len());
        for (index, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(found) => rows.push(found),
                Err(error) => return Err(db.lost(&error, index == last, sent).await),
            }
        }
        if ends {
            db.free();
        }
        Ok(rows)
    }
}

impl DbConnection {
    /// The transaction was committed or rolled back: the connection may be used again.
    fn free(&self) {
        self.spoilt.store(false, Ordering::Relaxed);
    }

    /// Sort the error of a stage. A statement that the server refused was rolled back, so a commit
    /// behind it did nothing.
    async fn lost(&self, error: &Error, is_last: bool, sent: Sent) -> failure::PostgresFault {
        let was_answered = error.as_db_error().is_some();
        let sent = if was_answered && !is_last {
            Sent::Work
        } else {
            sent
        };
        let fault = failure::fault(error, sent);
        if was_answered
            && !self.client.is_closed()
            && self.client.batch_execute("rollback").await.is_ok()
        {
            self.free();
        }
        fault
    }
}

async fn run(client: &Client, ready: Ready, params: Params<'_>) -> Result<Vec<Row>, Error> {
    match ready {
        Ready::Prepared(statement) => client.query(&statement, &params).await,
        Ready::Text(text, types) => {
            let typed: Vec<_> = params.iter().copied().zip(types.iter().cloned()).collect();
            client.query_typed(&text, &typed).await
        }
    }
}

/// Poll the stages in their order until all are done: the first poll of each sends it.
async fn in_order(mut stages: Vec<Stage<'_>>) -> Vec<Result<Vec<Row>, Error>> {
    let mut answers: Vec<Option<Result<Vec<Row>, Error>>> = stages.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (stage, answer) in stages.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(done) = stage.as_mut().poll(context)
            {
                *answer = Some(done);
            }
        }
        if answers.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}
