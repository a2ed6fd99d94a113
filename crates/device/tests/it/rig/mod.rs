// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An endpoint for tests: takes the outputs of a device, class by class, and logs them.

use riser_device::{
    BarIndex, Device, DmaAtomic, DmaError, DmaId, DmaRead, DmaWrite, Input, Output, RequestOp, ResetKind,
};
use riser_device::{Ready, Token, seam};
use tlp::{AtomicOp, Class, Data, PayloadPool, Span, Time};

/// An action of a device, without the IDs that the device has chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Taken(u32),
    Write(u64, Data),
    Interrupt(u16),
    Intx(bool),
    Pme,
    Message(u8),
    Read(u64, u32),
    Atomic(u64, AtomicOp, Data),
    Complete(u32, Result<Data, seam::CompletionError>),
    Abandon(u32),
}

pub(crate) struct Rig {
    pub(crate) device: Box<dyn Device>,
    pub(crate) now: Time,
    pub(crate) log: Vec<Event>,
    /// Classes that have room, by index.
    pub(crate) open: [bool; 3],
    /// Reads that were accepted but not answered.
    pub(crate) reads: Vec<DmaRead>,
    /// AtomicOps that were accepted but not answered.
    pub(crate) atomics: Vec<DmaAtomic>,
    pub(crate) pool: PayloadPool,
    pub(crate) last_write: Option<DmaWrite>,
    next_token: u32,
}

impl Rig {
    pub(crate) fn new(device: impl Device + 'static) -> Rig {
        Rig {
            device: Box::new(device),
            now: Time::ZERO,
            log: Vec::new(),
            open: [true; 3],
            reads: Vec::new(),
            atomics: Vec::new(),
            pool: PayloadPool::new(),
            last_write: None,
            next_token: 0,
        }
    }

    /// Polls every class that has room, until there is no more output.
    pub(crate) fn poll_all(&mut self) {
        for _ in 0..100_000 {
            let before = self.log.len();
            while let Some(token) = self.poll_taken() {
                self.log.push(Event::Taken(token.0));
            }
            let open = self.open;
            for class in Class::ALL.into_iter().filter(|class| open[class.index()]) {
                while let Some(output) = self.poll_output(class) {
                    self.note(output);
                }
            }
            if self.device.poll_timeout().is_some_and(|time| time <= self.now) {
                self.device.handle(self.now, Input::Timer);
            } else if self.log.len() == before {
                return;
            }
        }
        panic!("the device never comes to rest: {:?}", self.device.waits_for());
    }

    /// Polls one output, and checks that `ready` has announced it.
    fn poll_output(&mut self, class: Class) -> Option<Output> {
        let announced = self.device.ready().contains(Ready::output(class));
        let output = self.device.poll_output(self.now, class);
        assert!(announced || output.is_none(), "{output:?} was not announced");
        output
    }

    fn poll_taken(&mut self) -> Option<Token> {
        let announced = self.device.ready().contains(Ready::TAKEN);
        let token = self.device.poll_taken();
        assert!(announced || token.is_none(), "{token:?} was not announced");
        token
    }

    /// Accepts one output of `class` only.
    pub(crate) fn poll_one(&mut self, class: Class) -> bool {
        let output = self.poll_output(class);
        let some = output.is_some();
        output.into_iter().for_each(|output| self.note(output));
        some
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.device.handle(self.now, input);
        self.poll_all();
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> u32 {
        let data = Data::Carried(self.pool.copy(bytes));
        let span = span(offset, bytes.len() as u32);
        self.request(RequestOp::Write { bar: BarIndex(0), offset, span, data })
    }

    pub(crate) fn read(&mut self, offset: u64, len: u32) -> u32 {
        self.request(RequestOp::Read { bar: BarIndex(0), offset, span: span(offset, len), locked: false })
    }

    pub(crate) fn request(&mut self, op: RequestOp) -> u32 {
        let token = self.next_token;
        self.next_token += 1;
        self.handle(Input::Request(seam::Request::new(Token(token), op)));
        token
    }

    /// Answers the `nth` accepted read, from the oldest, with bytes that count up from the lowest byte of
    /// its address.
    pub(crate) fn answer(&mut self, nth: usize) {
        let read = self.reads.remove(nth);
        let bytes: Vec<u8> = (0..read.len).map(|n| (read.address as u32 + n) as u8).collect();
        let data = if read.carry { Data::Carried(self.pool.copy(&bytes)) } else { Data::Counted(read.len) };
        self.done(read.id, Ok(data));
    }

    pub(crate) fn done(&mut self, id: DmaId, result: Result<Data, DmaError>) {
        self.handle(Input::DmaDone { id, result });
    }

    pub(crate) fn reset(&mut self) {
        self.handle(Input::Reset(ResetKind::FunctionLevel));
    }

    /// Advances time to `ps`, with a timer input at each time that the device requests.
    pub(crate) fn run_to(&mut self, ps: u64) {
        let end = Time::from_ps(ps);
        self.poll_all();
        while let Some(time) = self.device.poll_timeout().filter(|time| *time <= end) {
            self.now = self.now.max(time);
            self.handle(Input::Timer);
        }
        self.now = end;
    }

    /// The log since the last call.
    pub(crate) fn take_log(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.log)
    }

    pub(crate) fn carried(&self, bytes: &[u8]) -> Data {
        Data::Carried(self.pool.copy(bytes))
    }

    fn note(&mut self, output: Output) {
        let event = match output {
            Output::Write(write) => {
                let event = Event::Write(write.address, write.data.clone());
                self.last_write = Some(write);
                event
            }
            Output::Interrupt { vector } => Event::Interrupt(vector),
            Output::Intx { asserted } => Event::Intx(asserted),
            Output::Pme => Event::Pme,
            Output::Atomic(atomic) => {
                let event = Event::Atomic(atomic.address, atomic.op, atomic.operands.clone());
                self.atomics.push(atomic);
                event
            }
            Output::Message(message) => Event::Message(message.code),
            Output::Complete { token, result } => Event::Complete(token.0, result),
            Output::Abandon { token } => Event::Abandon(token.0),
            Output::Read(read) => {
                let event = Event::Read(read.address, read.len);
                self.reads.push(read);
                event
            }
            other => panic!("{other:?} is of no kind that this knows"),
        };
        self.log.push(event);
    }
}

pub(crate) fn span(offset: u64, len: u32) -> Span {
    Span::covering(0x1_0000 + offset, len).expect("a span within 4 KiB")
}
