//! Upkeep from the command line: describe, check, print the schema, close. Backups are the business
//! of Postgres's own tools.

use std::path::PathBuf;

use lope_model::{Moment, RunId, Timestamp};
use lope_store::store::{Finding, UpkeepVerbs};
use lope_store::tables::marker;
use lope_store::{Reading, StoreError, StoreResult, Transfer};
use tokio_postgres::Row;

use crate::connection::{ReadStatement, View};
use crate::failure::Worked;
use crate::inner::{Handle, PostgresInner};
use crate::migrate::GOLDEN_SCHEMA;
use crate::options::DEFAULT_SCHEMA;
use crate::schema;
use crate::statement::{Params, Statement};

/// Most findings of one kind that are counted; not all of them are told one by one.
const COUNTED_MAX: i64 = 100_000;

const MARKER: &str = "select value from {schema}.table_rows where tbl = 0 and key = $1";

static CLOCK: Statement = Statement {
    name: "clock",
    text: "select {now}",
    types: "",
};

/// What helps when pages cannot be read.
const PAGES: &str = "restore a backup; or take the runs away that are named (`lope store remove-run ID`), and let the \
    server clear its pages: set zero_damaged_pages = on, then vacuum full";

/// A rule, and the statement that finds what breaks it: one text a row.
struct IntegrityRule {
    name: &'static str,
    text: &'static str,
    hint: &'static str,
}

const RULES: &[IntegrityRule] = &[
    IntegrityRule {
        name: "journal",
        text: include_str!("check_journal.sql"),
        hint: "restore a backup, or take it away: `lope store remove-run ID`",
    },
    IntegrityRule {
        name: "queue",
        text: include_str!("check_queue.sql"),
        hint: "restore a backup, or take it away: `lope store remove-run ID`",
    },
    IntegrityRule {
        name: "lease",
        text: include_str!("check_lease.sql"),
        hint: "run `lope up`: a runner takes over what others left behind",
    },
    IntegrityRule {
        name: "mail",
        text: include_str!("check_mail.sql"),
        hint: "restore a backup, or take it away: `lope store remove-run ID`",
    },
    IntegrityRule {
        name: "runs",
        text: include_str!("check_runs.sql"),
        hint: "restore a backup, or take it away: `lope store remove-run ID`",
    },
    IntegrityRule {
        name: "schedules",
        text: include_str!("check_schedules.sql"),
        hint: "remove the schedule and add it again; if it comes back, report a bug",
    },
    IntegrityRule {
        name: "timers",
        text: include_str!("check_timers.sql"),
        hint: "this is a bug in Lope, or somebody changed the tables by hand",
    },
    IntegrityRule {
        name: "board",
        text: include_str!("check_board.sql"),
        hint: "restore a backup",
    },
];

impl UpkeepVerbs for Handle {
    fn describe(&self) -> String {
        self.0.options.describe()
    }

    /// The server ends transactions that stand still.
    fn stopped_writer(&self) -> Option<Finding> {
        None
    }

    async fn reading(&self) -> StoreResult<Reading> {
        Ok(self.0.reading().await?)
    }

    async fn check(&self) -> StoreResult<Vec<Finding>> {
        Ok(self.0.check().await?)
    }

    async fn schema(&self) -> StoreResult<String> {
        Ok(schema::text(&self.0.reads).await?)
    }

    async fn backup(&self, to: PathBuf) -> StoreResult<()> {
        self.0.unless_closed()?;
        let options = &self.0.options;
        let message = format!(
            "Postgres has its own tools for backups; run: pg_dump --format=custom --schema={} --file='{}' '{}'",
            options.schema,
            to.display(),
            options.address
        );
        Err(StoreError::Refused { message })
    }

    async fn remove_run(&self, run: RunId) -> StoreResult<bool> {
        Ok(self.0.remove_run(run).await?)
    }

    async fn compact(&self) -> StoreResult<u64> {
        self.0.unless_closed()?;
        let message = format!(
            "Postgres uses space again by itself; to give it back to the system, run in psql: vacuum full {}.journal",
            self.0.options.schema
        );
        Err(StoreError::Refused { message })
    }

    fn transfer(&self) -> Option<&dyn Transfer> {
        Some(self)
    }

    async fn close(&self) -> StoreResult<()> {
        self.0.close().await;
        Ok(())
    }
}

impl PostgresInner {
    pub(crate) async fn reading(&self) -> Worked<Reading> {
        let rows = self.reads.read(&CLOCK, vec![]).await?;
        let now = rows.first().map_or(0, |row| row.get(0));
        Ok(Reading {
            now: Timestamp::from_millis(now),
            moment: Moment(now),
        })
    }

    async fn check(&self) -> Worked<Vec<Finding>> {
        let mut findings = self.check_schema().await?;
        let mut asked: Vec<(ReadStatement<'_>, Params<'_>)> = RULES
            .iter()
            .map(|rule| -> (ReadStatement<'_>, Params<'_>) { (rule.ask(), vec![&COUNTED_MAX]) })
            .collect();
        asked.push((
            ReadStatement::Once {
                text: MARKER,
                types: "byte",
            },
            vec![&marker::KEY],
        ));
        let answers = match self.reads.read_together(View::Whole, &asked).await {
            Err(fault) if fault.is_damage() => {
                self.read_around_damage(&asked, &mut findings).await?
            }
            answers => answers?,
        };
        for (rule, rows) in RULES.iter().zip(&answers) {
            let found = rows.iter().map(|row| rule.finding(row));
            findings.extend(Finding::told(found.collect()));
        }
        findings.extend(answers.get(RULES.len()).and_then(|rows| check_marker(rows)));
        Ok(findings)
    }

    /// Some page cannot be read: each rule is asked alone, and those that meet the damage say so.
    async fn read_around_damage(
        &self,
        asked: &[(ReadStatement<'_>, Params<'_>)],
        findings: &mut Vec<Finding>,
    ) -> Worked<Vec<Vec<Row>>> {
        let mut answers = Vec::with_capacity(asked.len());
        for one in asked.chunks(1) {
            match self.reads.read_together(View::Whole, one).await {
                Err(fault) if fault.is_damage() => {
                    let message = fault.error.to_string();
                    if findings.iter().all(|finding| finding.message != message) {
                        findings.push(Finding {
                            rule: "file",
                            message,
                            hint: PAGES.to_owned(),
                        });
                    }
                    answers.push(Vec::new());
                }
                rows => answers.extend(rows?),
            }
        }
        let most = COUNTED_MAX as usize;
        let unreadable = self.queued_on_damaged_pages(most).await?;
        let unreadable = unreadable.into_iter().map(|(run, why)| Finding {
            rule: "runs",
            message: format!("run {run} is damaged: its record cannot be read: {why}"),
            hint: PAGES.to_owned(),
        });
        findings.extend(Finding::told(unreadable.collect()));
        Ok(answers)
    }

    async fn check_schema(&self) -> Worked<Vec<Finding>> {
        let found = schema::text(&self.reads).await?;
        let golden = schema::renamed(GOLDEN_SCHEMA, DEFAULT_SCHEMA, self.options.schema.as_str());
        let hint = "somebody changed the tables by hand: undo it, or restore a backup";
        let finding = |message| Finding {
            rule: "schema",
            message,
            hint: hint.to_owned(),
        };
        let differences = schema::differences(&golden, &found);
        Ok(Finding::told(
            differences.into_iter().map(finding).collect(),
        ))
    }
}

impl IntegrityRule {
    fn ask(&self) -> ReadStatement<'_> {
        ReadStatement::Once {
            text: self.text,
            types: "int",
        }
    }

    fn finding(&self, row: &Row) -> Finding {
        Finding {
            rule: self.name,
            message: row.get(0),
            hint: self.hint.to_owned(),
        }
    }
}

/// A marker that is there must be one; whether it is the right version is for whoever boots to say.
fn check_marker(rows: &[Row]) -> Option<Finding> {
    let value: &[u8] = rows.first()?.get(0);
    let is_marker = value.len() == 8 && value.starts_with(b"RSV0");
    (!is_marker).then(|| Finding {
        rule: "marker",
        message: format!("the schema marker of the byte tables is {value:02x?}"),
        hint: "restore a backup, or delete the key runner.schema.version if the tables are sound"
            .to_owned(),
    })
}
