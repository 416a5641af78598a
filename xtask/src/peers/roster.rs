//! Who is measured, by what, and for how much: one table of peers and one of works. The rates are
//! rough ones of a small machine; they only say how many units take a few seconds.

/// What is done by every peer that can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerWork {
    Runs,
    Sequence,
    Sequences,
    Fan,
    Latency,
    Idle,
    Resume,
}

impl PeerWork {
    pub(super) const ALL: [Self; 7] = [
        Self::Runs,
        Self::Sequence,
        Self::Sequences,
        Self::Fan,
        Self::Latency,
        Self::Idle,
        Self::Resume,
    ];

    /// Its name on the command line and to the programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Sequence => "sequence",
            Self::Sequences => "sequences",
            Self::Fan => "fan",
            Self::Latency => "latency",
            Self::Idle => "idle",
            Self::Resume => "resume",
        }
    }

    /// What it is, for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Runs => "One-step runs, 256 callers at once",
            Self::Sequence => "One run, its steps one after the other",
            Self::Sequences => "16 such runs at once",
            Self::Fan => "Fan-outs of 1,000 steps, one after the other",
            Self::Latency => "One-step runs, one at a time on an idle engine",
            Self::Idle => "Nothing to do",
            Self::Resume => "Killed in the middle of a sequence and started again",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Runs | Self::Latency => "run",
            Self::Sequence | Self::Sequences | Self::Fan | Self::Resume => "step",
            Self::Idle => "second",
        }
    }
}

/// Where a peer keeps what must last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    Postgres,
    /// A file of SQLite, or files of a server of its own, in the folder of the turn.
    Files,
}

/// What a peer's program is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerSource {
    /// The bench target `peer` of our own library.
    Ours,
    /// A package under `benches/peers`, built by cargo.
    Cargo(&'static str),
    Python(&'static str),
    Node(&'static str),
    /// As `Cargo`, and a server from the registry of Node: its package and its program.
    CargoAndServer(&'static str, &'static str, &'static str),
    /// Not to be had from a registry of packages: why.
    Missing(&'static str),
}

/// How many units a second to expect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) runs: u64,
    pub(super) sequence: u64,
    pub(super) sequences: u64,
    pub(super) fan: u64,
}

#[derive(Debug)]
pub(super) struct PeerEntry {
    pub(super) name: &'static str,
    pub(super) source: PeerSource,
    pub(super) keeps: Keeps,
    /// How what it acknowledges is kept, for the page.
    pub(super) durability: &'static str,
    /// What to know before comparing, for the page.
    pub(super) remark: &'static str,
    pub(super) rates: Rates,
    /// No: a queue of jobs, which has runs of one step alone.
    pub(super) has_steps: bool,
}

/// Seconds that a turn should take.
const SECONDS: u64 = 5;
const IDLE_SECONDS: u64 = 20;
/// One-step runs one at a time: at least so many for a 99th percentile, at most so many.
const LATENCIES: u64 = 500;
/// Steps of the sequence that is killed.
const KILLED: u64 = 1_000;
/// Units of a sequence or fan-out that a small scale leaves.
const FEWEST: u64 = 32;

impl PeerEntry {
    pub(super) fn does(&self, work: PeerWork) -> bool {
        match work {
            PeerWork::Runs | PeerWork::Latency | PeerWork::Idle => true,
            PeerWork::Sequence | PeerWork::Sequences | PeerWork::Fan | PeerWork::Resume => {
                self.has_steps
            }
        }
    }

    /// How many units of a work, at a scale in percent.
    pub(super) fn units(&self, work: PeerWork, scale: u64) -> u64 {
        let scaled = |usual: u64| (usual * scale / 100).max(FEWEST);
        match work {
            PeerWork::Runs => scaled(self.rates.runs * SECONDS),
            PeerWork::Sequence => scaled(self.rates.sequence * SECONDS),
            PeerWork::Sequences => scaled(self.rates.sequences * SECONDS),
            PeerWork::Fan => (scaled(self.rates.fan * SECONDS) / 1_000).max(1) * 1_000,
            PeerWork::Latency => scaled(LATENCIES),
            PeerWork::Idle => (IDLE_SECONDS * scale / 100).max(3),
            PeerWork::Resume => scaled(KILLED.min(self.rates.sequence * SECONDS)),
        }
    }
}

const POSTGRES: &str = "on Postgres: every commit is flushed (`fsync` and `synchronous_commit` on)";

pub(super) const PEERS: &[PeerEntry] = &[
    PeerEntry {
        name: "Lope",
        source: PeerSource::Ours,
        keeps: Keeps::Postgres,
        durability: POSTGRES,
        remark: "steps are functions of the program, called by the engine inside it",
        rates: Rates {
            runs: 15_000,
            sequence: 2_000,
            sequences: 10_000,
            fan: 20_000,
        },
        has_steps: true,
    },
    PeerEntry {
        name: "Lope on SQLite",
        source: PeerSource::Ours,
        keeps: Keeps::Files,
        durability: "a file: WAL, `synchronous=FULL`, every commit is flushed",
        remark: "one machine, no server",
        rates: Rates {
            runs: 15_000,
            sequence: 500,
            sequences: 4_000,
            fan: 20_000,
        },
        has_steps: true,
    },
    PeerEntry {
        name: "DBOS for Rust",
        source: PeerSource::Cargo("dbos"),
        keeps: Keeps::Postgres,
        durability: POSTGRES,
        remark: "pool of 20 connections; runs are started and awaited in the process that works on them",
        rates: Rates {
            runs: 1_500,
            sequence: 1_500,
            sequences: 4_000,
            fan: 4_000,
        },
        has_steps: true,
    },
    PeerEntry {
        name: "DBOS for Python",
        source: PeerSource::Python("dbos-python"),
        keeps: Keeps::Postgres,
        durability: POSTGRES,
        remark: "one CPython process with async workflows, pool of 20 connections",
        rates: Rates {
            runs: 150,
            sequence: 300,
            sequences: 500,
            fan: 400,
        },
        has_steps: true,
    },
    PeerEntry {
        name: "Duroxide",
        source: PeerSource::Cargo("duroxide"),
        keeps: Keeps::Postgres,
        durability: POSTGRES,
        remark: "16 orchestrations and 16 activities at once (default 2); its dispatchers poll, and a \
                 run is replayed from its history at every step",
        rates: Rates {
            runs: 100,
            sequence: 20,
            sequences: 100,
            fan: 200,
        },
        has_steps: true,
    },
    PeerEntry {
        name: "Duroxide on SQLite",
        source: PeerSource::Cargo("duroxide"),
        keeps: Keeps::Files,
        durability: "a file: WAL, `synchronous=NORMAL`: a commit is not flushed, a power failure may take it back",
        remark: "as above",
        rates: Rates {
            runs: 100,
            sequence: 20,
            sequences: 100,
            fan: 200,
        },
        has_steps: true,
    },
    PeerEntry {
        name: "Restate",
        source: PeerSource::CargoAndServer(
            "restate",
            "@restatedev/restate-server@1.7.12",
            "@restatedev/restate-server-linux-x64/bin/restate-server",
        ),
        keeps: Keeps::Files,
        durability: "a server of its own with a log in RocksDB, flushed (`rocksdb-disable-wal-fsync` \
                     off)",
        remark: "its own server on the same machine, asked over HTTP; its package for Rust records one \
                 step at a time, also where the work is a fan-out; bytes are those that its \
                 processes wrote to files",
        rates: Rates {
            runs: 1_500,
            sequence: 300,
            sequences: 2_000,
            fan: 2_000,
        },
        has_steps: true,
    },
    PeerEntry {
        name: "Apalis",
        source: PeerSource::Cargo("apalis"),
        keeps: Keeps::Postgres,
        durability: POSTGRES,
        remark: "a queue of jobs: a job has ended when its function was called, its acknowledgement \
                 follows",
        rates: Rates {
            runs: 500,
            sequence: 0,
            sequences: 0,
            fan: 0,
        },
        has_steps: false,
    },
    PeerEntry {
        name: "Graphile Worker",
        source: PeerSource::Node("graphile-worker"),
        keeps: Keeps::Postgres,
        durability: POSTGRES,
        remark: "a queue of jobs for Node, 20 at once: a job has ended when its function was called",
        rates: Rates {
            runs: 2_000,
            sequence: 0,
            sequences: 0,
            fan: 0,
        },
        has_steps: false,
    },
    PeerEntry {
        name: "Temporal",
        source: PeerSource::Missing(
            "its development server is in no registry of packages; its libraries fetch it from elsewhere",
        ),
        keeps: Keeps::Files,
        durability: "",
        remark: "",
        rates: Rates {
            runs: 0,
            sequence: 0,
            sequences: 0,
            fan: 0,
        },
        has_steps: false,
    },
];
