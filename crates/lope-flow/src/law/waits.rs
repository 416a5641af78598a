//! Waiting: `sleep`, `until`, `wait`, the timers behind them and the signals they are for.

use std::sync::Arc;

use lope_definition::StepKind;
use lope_expr::Template;
use lope_model::failure::kind;
use lope_model::{Failure, Span, Timestamp, Value};

use super::arena::Key;
use super::effect::{Effect, Notice};
use super::limits::SIGNALS_MAX;
use super::machine::Machine;
use super::start::Spot;
use super::state::{Alarm, Phase, Sleeping, Timer, Waiting, Work, WorkItem};

impl<'a> Machine<'a> {
    pub(crate) fn start_sleep(
        &mut self,
        spot: Spot<'a>,
        span: &Template,
    ) -> Result<Option<Value>, Failure> {
        let span = span_of(&self.eval(spot.act, span.expr())?)?;
        Ok(self.sleep_until(spot, self.state.at.plus(span)))
    }

    pub(crate) fn start_until(
        &mut self,
        spot: Spot<'a>,
        time: &Template,
    ) -> Result<Option<Value>, Failure> {
        let time = time_of(&self.eval(spot.act, time.expr())?)?;
        Ok(self.sleep_until(spot, time))
    }

    fn sleep_until(&mut self, spot: Spot<'a>, until: Timestamp) -> Option<Value> {
        if until <= self.state.at {
            return Some(Value::Null);
        }
        let exec = self.hold(spot, Work::Sleep(Sleeping { until, timer: None }));
        let timer = Some(self.set_timer(exec, until));
        self.set_work(exec, Work::Sleep(Sleeping { until, timer }));
        None
    }

    pub(crate) fn start_wait(
        &mut self,
        spot: Spot<'a>,
        signal: &Template,
        timeout: Option<&Template>,
    ) -> Result<Option<Value>, Failure> {
        let signal = self.text(spot.act, signal.expr(), "the name of a signal")?;
        let span = timeout
            .map(|timeout| span_of(&self.eval(spot.act, timeout.expr())?))
            .transpose()?;
        if let Some(value) = self.buffered_signal(&signal) {
            return Ok(Some(value));
        }
        let until = span.map(|span| self.state.at.plus(span));
        let waiting = Waiting {
            signal: Arc::clone(&signal),
            until,
            timer: None,
        };
        let exec = self.hold(spot, Work::Wait(Box::new(waiting)));
        self.await_signal(exec);
        Ok(None)
    }

    /// Puts a waiting step in the lists of those that wait.
    pub(crate) fn await_signal(&mut self, exec: Key) {
        let Some(Work::Wait(waiting)) = self.state.execs.get(exec).map(|open| &open.work) else {
            return;
        };
        let signal = Arc::clone(&waiting.signal);
        let until = waiting.until;
        self.state
            .waiters
            .entry(signal)
            .or_default()
            .push_back(exec);
        let timer = until.map(|until| self.set_timer(exec, until));
        if let Some(Work::Wait(waiting)) = self.state.execs.get_mut(exec).map(|open| &mut open.work)
        {
            waiting.timer = timer;
        }
    }

    pub(crate) fn forget_waiter(&mut self, signal: &str, exec: Key) {
        let Some(waiters) = self.state.waiters.get_mut(signal) else {
            return;
        };
        waiters.retain(|waiter| *waiter != exec);
        if waiters.is_empty() {
            self.state.waiters.remove(signal);
        }
    }

    pub(crate) fn buffered_signal(&mut self, signal: &str) -> Option<Value> {
        let waiting = self.state.signals.get_mut(signal)?;
        let value = waiting.pop_front()?;
        if waiting.is_empty() {
            self.state.signals.remove(signal);
        }
        self.state.buffered -= 1;
        Some(value)
    }

    /// A signal goes to the step that has waited longest for it, or is kept for the first that
    /// will.
    pub(crate) fn signal(&mut self, name: Arc<str>, value: Value) {
        let waiter = self
            .state
            .waiters
            .get(&name)
            .and_then(|waiters| waiters.front().copied());
        if let Some(exec) = waiter {
            self.stop(exec);
            return self.settle_exec(exec, value);
        }
        if self.state.buffered >= SIGNALS_MAX {
            return self.emit(Effect::Telemetry(Notice::SignalDropped { name }));
        }
        self.state.signals.entry(name).or_default().push_back(value);
        self.state.buffered += 1;
    }

    pub(crate) fn set_timer(&mut self, exec: Key, at: Timestamp) -> Timer {
        let timer = (at, self.state.next_number());
        self.state.timers.insert(timer, Alarm::Exec(exec));
        timer
    }

    /// Fires the first timer that is due, and comes back for the next.
    pub(crate) fn fire_timer(&mut self) {
        let Some(entry) = self
            .state
            .timers
            .first_entry()
            .filter(|entry| entry.key().0 <= self.state.at)
        else {
            return;
        };
        let alarm = entry.remove();
        self.enqueue(WorkItem::Timers);
        match alarm {
            Alarm::Exec(exec) => self.wake(exec),
            Alarm::Grace => self.force_cancel(),
        }
    }

    fn wake(&mut self, exec: Key) {
        let Some(open) = self.state.execs.get(exec) else {
            return;
        };
        match &open.work {
            Work::Sleep(_) => self.settle_exec(exec, Value::Null),
            Work::Wait(_) => self.wait_timed_out(exec),
            Work::Attempt(attempt) if matches!(attempt.phase, Phase::InFlight { .. }) => {
                self.child_timed_out(exec);
            }
            Work::Attempt(_) => self.make_ready(exec),
            Work::Send(_) | Work::Turn(_) | Work::Block(_) | Work::Each(_) | Work::While(_) => {}
            Work::Try(_) | Work::Race(_) | Work::All(_) => {}
        }
    }

    fn wait_timed_out(&mut self, exec: Key) {
        self.stop(exec);
        let Some(open) = self.state.execs.get(exec) else {
            return;
        };
        let (act, index) = (open.act, open.step);
        let Some(step) = self.planned(act, index) else {
            return;
        };
        let StepKind::Wait { default, .. } = &step.kind else {
            return;
        };
        let value = match default {
            Some(default) => self.eval(act, default.expr()),
            None => Err(Failure::new(
                kind::TIMEOUT,
                "the signal did not come in time",
            )),
        };
        match value {
            Ok(value) => self.settle_exec(exec, value),
            Err(failure) => {
                self.let_go(exec);
                self.raise(Spot { act, index, step }, failure);
            }
        }
    }
}

/// A span as users write it, or a number of seconds.
fn span_of(value: &Value) -> Result<Span, Failure> {
    let wrong = |message: String| Failure::new("ValueError", message);
    match value {
        Value::Str(text) => text.parse().map_err(|error| wrong(format!("{error}"))),
        Value::Int(seconds) => Ok(Span::from_secs(u64::try_from(*seconds).unwrap_or(0))),
        Value::Float(seconds) if seconds.is_nan() => {
            Err(wrong("NaN is not a number of seconds".into()))
        }
        Value::Float(seconds) => Ok(Span::from_millis((seconds * 1_000.0).max(0.0) as u64)),
        other => Err(Failure::new(
            "TypeError",
            format!(
                "a duration or a number of seconds is needed, not {}",
                other.kind()
            ),
        )),
    }
}

/// A time in RFC 3339, or milliseconds since 1970.
fn time_of(value: &Value) -> Result<Timestamp, Failure> {
    match value {
        Value::Str(text) => text
            .parse()
            .map_err(|error| Failure::new("ValueError", format!("{error}"))),
        Value::Int(millis) => Ok(Timestamp::from_millis(*millis)),
        other => Err(Failure::new(
            "TypeError",
            format!("a time is needed, not {}", other.kind()),
        )),
    }
}
