// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A controller from Enable on: its queues, and the workers for their commands. The commands themselves are in other modules.

use super::MAX_UNDER_WAY;
use super::controller::Controller;
use super::events::Events;
use super::features::Features;
use super::queue::{CompletionQueue, SubmissionQueue};
use super::spec::{Command, Outcome, SQE_BYTES, Status, admin};
use crate::group::Group;
use crate::queue::Queue;
use device::Channel;
use device::io::{Either, select};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tlp::Time;

/// A fetched command, and its queue.
struct Taken {
    queue: Rc<SubmissionQueue>,
    command: Command,
    /// Time at which the host announced the command.
    rung: Time,
}

/// A worker, which executes one command at a time.
struct Worker {
    /// Queue and identifier of its command.
    at: Cell<Option<(u16, u16)>>,
    /// Signals that the command is to end immediately, and why.
    abort: Queue<Status>,
}

/// A queue and the tasks that serve it, which end with it.
struct Served<T> {
    queue: Rc<T>,
    _tasks: Group,
}

pub(super) struct ControllerRun {
    pub(super) controller: Rc<Controller>,
    /// Page size of host memory in bytes.
    pub(super) page: u32,
    submissions: RefCell<Vec<Option<Served<SubmissionQueue>>>>,
    completions: RefCell<Vec<Option<Served<CompletionQueue>>>>,
    work: Channel<Taken>,
    workers: RefCell<Vec<Rc<Worker>>>,
    idle: Cell<usize>,
    group: RefCell<Option<Group>>,
    pub(super) features: RefCell<Features>,
    pub(super) events: Events,
}

impl ControllerRun {
    pub(super) fn start(
        controller: Rc<Controller>,
        page: u32,
        (asq, submissions): (u64, u32),
        (acq, completions): (u64, u32),
    ) -> Rc<ControllerRun> {
        let queues = usize::from(controller.subsystem.settings.pairs_of(controller.number)) + 1;
        let subsystem = &controller.subsystem;
        let namespaces = subsystem.namespaces.len() as u32;
        let features = Features::new(subsystem.settings.volatile_write_cache, namespaces, queues as u16);
        let run = Rc::new(ControllerRun {
            controller,
            page,
            submissions: RefCell::new((0..queues).map(|_| None).collect()),
            completions: RefCell::new((0..queues).map(|_| None).collect()),
            work: Channel::new(1),
            workers: RefCell::default(),
            idle: Cell::new(0),
            group: RefCell::new(Some(Group::default())),
            features: RefCell::new(features),
            events: Events::default(),
        });
        run.add_completions(CompletionQueue::new(0, acq, completions, Some(0)));
        if let Some(queue) = run.completions(0) {
            run.add_submissions(SubmissionQueue::new(0, asq, submissions, queue));
        }
        run
    }

    /// Drops everything in flight.
    pub(super) fn finish(&self) {
        drop(self.group.take());
        self.submissions.borrow_mut().clear();
        self.completions.borrow_mut().clear();
    }

    // ---- queues ----

    /// Whether an I/O queue may have this number.
    pub(super) fn has_place(&self, id: u16) -> bool {
        id > 0 && usize::from(id) < self.completions.borrow().len()
    }

    pub(super) fn completions(&self, id: u16) -> Option<Rc<CompletionQueue>> {
        let all = self.completions.borrow();
        all.get(usize::from(id))?.as_ref().map(|served| Rc::clone(&served.queue))
    }

    pub(super) fn submissions(&self, id: u16) -> Option<Rc<SubmissionQueue>> {
        let all = self.submissions.borrow();
        all.get(usize::from(id))?.as_ref().map(|served| Rc::clone(&served.queue))
    }

    /// Whether there is an I/O queue.
    pub(super) fn has_io_queues(&self) -> bool {
        self.completions.borrow().iter().skip(1).any(Option::is_some)
    }

    pub(super) fn add_completions(self: &Rc<ControllerRun>, queue: Rc<CompletionQueue>) {
        let (tasks, id) = (Group::default(), usize::from(queue.id));
        let (run, served) = (Rc::clone(self), Rc::clone(&queue));
        self.controller.io.spawn(tasks.member(async move {
            let told = |waited| {
                if served.id > 0 {
                    run.controller.subsystem.report.change(|report| report.stages.completion += waited);
                }
            };
            served.run(&run.controller.io, |vector| run.features.borrow().coalescing(vector), told).await;
            // If the function cannot write, the host cannot be notified.
        }));
        if let Some(place) = self.completions.borrow_mut().get_mut(id) {
            *place = Some(Served { queue, _tasks: tasks });
        }
    }

    pub(super) fn add_submissions(self: &Rc<ControllerRun>, queue: Rc<SubmissionQueue>) {
        let (tasks, id) = (Group::default(), usize::from(queue.id));
        let (run, served) = (Rc::clone(self), Rc::clone(&queue));
        self.controller.io.spawn(tasks.member(async move { run.take_all(&served).await }));
        if let Some(place) = self.submissions.borrow_mut().get_mut(id) {
            *place = Some(Served { queue, _tasks: tasks });
        }
    }

    pub(super) fn remove_completions(&self, id: u16) {
        self.completions.borrow_mut()[usize::from(id)] = None;
    }

    /// Ends its commands, and fetches no more.
    pub(super) async fn remove_submissions(&self, queue: &SubmissionQueue) {
        queue.is_deleted.set(true);
        for worker in &*self.workers.borrow() {
            if worker.at.get().is_some_and(|(id, _)| id == queue.id) {
                let _ = worker.abort.push(Status::SQ_DELETED);
            }
        }
        queue.until_idle().await;
        queue.completions.users.set(queue.completions.users.get() - 1);
        self.submissions.borrow_mut()[usize::from(queue.id)] = None;
    }

    /// Handles the doorbell of a submission or completion queue. For an invalid one, it sends an event and returns false.
    pub(super) async fn ring(&self, queue: usize, is_submission: bool, value: u32) -> bool {
        let id = u16::try_from(queue).unwrap_or(u16::MAX);
        let taken = match is_submission {
            true => self.submissions(id).map(|queue| queue.ring(value, self.controller.io.now())),
            false => self.completions(id).map(|queue| queue.take(value)),
        };
        match taken {
            Some(true) => return true,
            Some(false) => self.events.invalid_doorbell_value().await,
            None => self.events.invalid_doorbell_register().await,
        }
        false
    }

    // ---- commands ----

    /// Fetches the commands of a queue as they arrive.
    async fn take_all(self: &Rc<ControllerRun>, queue: &Rc<SubmissionQueue>) {
        while let Ok((commands, first)) = queue.fetch(&self.controller.io).await {
            let commands = commands.chunks_exact(SQE_BYTES as usize).filter_map(Command::parse);
            for (entry, command) in (first..).zip(commands) {
                let rung = queue.rung(entry);
                let several = self.workers.borrow().len();
                if self.idle.get() <= self.work.len() && several < MAX_UNDER_WAY {
                    self.employ();
                }
                self.work.send(Taken { queue: Rc::clone(queue), command, rung }).await;
            }
        }
        self.controller.fail();
    }

    /// Starts another worker.
    fn employ(self: &Rc<ControllerRun>) {
        let worker = Rc::new(Worker { at: Cell::new(None), abort: Queue::new(1) });
        self.workers.borrow_mut().push(Rc::clone(&worker));
        self.idle.set(self.idle.get() + 1);
        let run = Rc::clone(self);
        if let Some(group) = &*self.group.borrow() {
            self.controller.io.spawn(group.member(async move {
                loop {
                    let taken = run.work.receive().await;
                    run.idle.set(run.idle.get() - 1);
                    run.execute(&worker, &taken).await;
                    run.idle.set(run.idle.get() + 1);
                }
            }));
        }
    }

    async fn execute(self: &Rc<ControllerRun>, worker: &Worker, Taken { queue, command, rung }: &Taken) {
        let io = &self.controller.io;
        let begin = io.now();
        let at = (queue.id, command.cid());
        let outcome = if queue.is_deleted.get() {
            Err(Status::SQ_DELETED)
        } else if self.workers.borrow().iter().any(|other| other.at.get() == Some(at)) {
            Err(Status::ID_CONFLICT)
        } else {
            worker.at.set(Some(at));
            let outcome = self.carry_out(worker, queue, command).await;
            worker.at.set(None);
            let _ = worker.abort.try_pop();
            outcome
        };
        if queue.id > 0 {
            self.controller.subsystem.report.change(|report| {
                report.stages.fetch += begin.since(*rung);
                report.stages.work += io.now().since(begin);
            });
        }
        let status = outcome.err().unwrap_or(Status::SUCCESS);
        if !matches!(status, Status::SUCCESS | Status::ABORT_REQUESTED | Status::SQ_DELETED) {
            self.controller.counts.borrow_mut().error(queue.id, command, status);
            self.controller.subsystem.report.change(|report| report.failed += 1);
        }
        let result = (outcome.unwrap_or(0), status);
        queue.completions.complete(queue, command.cid(), result, io.now()).await;
        queue.ended();
    }

    async fn carry_out(
        self: &Rc<ControllerRun>,
        worker: &Worker,
        queue: &SubmissionQueue,
        command: &Command,
    ) -> Outcome {
        if command.is_fused() {
            return Err(Status::INVALID_FIELD);
        }
        if queue.id == 0 && command.opcode() != admin::ASYNC_EVENT {
            return self.administer(command).await;
        }
        // These commands can be aborted.
        let work = async {
            match queue.id {
                0 => self.events.next().await,
                _ => self.transfer(command).await,
            }
        };
        match select(work, worker.abort.pop()).await {
            Either::Left(outcome) => outcome,
            Either::Right(why) => Err(why),
        }
    }

    /// Aborts a command. Returns false if the command is unknown or cannot be aborted.
    pub(super) fn abort(&self, queue: u16, cid: u16) -> bool {
        let workers = self.workers.borrow();
        let worker = workers.iter().find(|worker| worker.at.get() == Some((queue, cid)));
        worker.is_some_and(|worker| worker.abort.push(Status::ABORT_REQUESTED))
    }
}
