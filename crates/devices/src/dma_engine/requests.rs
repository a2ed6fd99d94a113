// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to one function: reads return registers. Writes start and stop engines, and ring their doorbells.

use super::BAR;
use super::engine::EngineRun;
use super::function::{Function, at, has};
use super::movers;
use super::registers::{self as r, engine as register};
use device::io::{Request, WriteRequest};
use std::rc::Rc;

/// A function that serves its host, from one reset to the next.
struct Server {
    function: Rc<Function>,
    /// By engine, from ENABLE on.
    runs: Vec<Option<Rc<EngineRun>>>,
}

/// Serves requests. Engines are other tasks.
pub(super) async fn serve(function: Rc<Function>) {
    let runs = vec![None; function.engines()];
    let mut server = Server { function, runs };
    while let Some(request) = server.function.io.next_request().await {
        match request {
            Request::Write(write) if write.bar() == BAR => server.write(&write).await,
            Request::Read(read) => server.function.read(read),
            _ => {}
        }
    }
}

impl Server {
    async fn write(&mut self, write: &WriteRequest) {
        let function = Rc::clone(&self.function);
        let interrupts = function.u32(r::INTERRUPTS);
        let engines = 0..self.runs.len();
        let of = |register| move |engine: &usize| has(write, at(*engine, register));
        // Most writes touch no control register.
        let controlled = engines.clone().filter(of(register::CONTROL));
        let controls: Vec<_> = controlled.map(|n| (n, function.engine_u32(n, register::CONTROL))).collect();
        if !function.store(write) {
            return;
        }
        if has(write, r::INTERRUPTS) {
            function.clear_intx(interrupts).await;
        }
        if has(write, r::CONTROL) && function.u32(r::CONTROL) & r::control::RESET != 0 {
            self.finish();
            function.reset_registers();
        }
        let end = write.offset() + write.len() as u64;
        if has(write, r::WEIGHT) || end > r::VF_WEIGHTS && write.offset() < r::ENGINE {
            function.weigh();
        }
        controls.into_iter().for_each(|(engine, before)| self.control(engine, before));
        engines.filter(of(register::POSTED)).for_each(|engine| self.ring(engine));
    }

    fn control(&mut self, engine: usize, before: u32) {
        let control = self.function.engine_u32(engine, register::CONTROL);
        self.function.set_engine_u32(engine, register::CONTROL, control & !register::control::ABORT);
        let [was, is] = [before, control].map(|control| control & register::control::ENABLE != 0);
        let run = &mut self.runs[engine];
        match (was, is, &run) {
            (false, true, _) => {
                if let Some(run) = run {
                    run.finish();
                }
                self.function.begin_anew(engine);
                *run = Some(EngineRun::start(&self.function, engine, movers::spawn));
            }
            (true, false, Some(run)) => run.abort(false),
            (true, true, Some(run)) if control & register::control::ABORT != 0 => run.abort(true),
            _ => {}
        }
    }

    fn ring(&self, engine: usize) {
        self.function.begins();
        if let Some(run) = &self.runs[engine] {
            run.ring();
        }
    }

    fn finish(&mut self) {
        for run in self.runs.iter_mut().filter_map(Option::take) {
            run.finish();
        }
    }
}

/// Also runs at a reset: a run and its tasks hold references to each other.
impl Drop for Server {
    fn drop(&mut self) {
        self.finish();
    }
}
