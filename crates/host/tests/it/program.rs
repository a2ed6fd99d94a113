// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host programs, and the executor of both adapters, in virtual time.

use device::CompletionError;
use exec::SpawnError;
use riser_host::cpu::{Cpu, Either, MAX_TASKS, join, msi, select, yield_now};
use riser_host::{AsyncProgram, HostError, HostInput, HostMemory, HostOutput, HostProgram};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{Bdf, Data, Duration, PayloadPool, Time};

type Log = Rc<RefCell<Vec<(&'static str, u64)>>>;

fn ps(ps: u64) -> Duration {
    Duration::from_ps(ps)
}

fn memory() -> HostMemory {
    HostMemory::new(1 << 20, 1 << 20).unwrap()
}

/// Runs a program that only sleeps, to its end. Returns its notes with their times.
fn run<Fut: Future<Output = ()> + 'static>(start: impl Fn(Cpu, Log) -> Fut) -> Vec<(&'static str, u64)> {
    let log = Log::default();
    let mut program = AsyncProgram::new(memory(), |cpu| {
        let future = start(cpu, Rc::clone(&log));
        async move {
            future.await;
            Ok::<(), String>(())
        }
    });
    let mut now = Time::ZERO;
    while program.outcome().is_none() {
        assert!(program.poll_output(now).is_none());
        let Some(next) = program.poll_timeout() else { break };
        now = now.max(next);
        program.handle(now, HostInput::Timer);
    }
    assert_eq!(program.outcome(), Some(Ok(())));
    log.take()
}

/// Records `name` after each of its sleeps.
async fn sleeper(cpu: Cpu, log: Log, name: &'static str, step: u64, times: u64) -> u64 {
    for _ in 0..times {
        cpu.sleep(ps(step)).await;
        log.borrow_mut().push((name, cpu.now().as_ps()));
    }
    step * times
}

#[test]
fn tasks_that_wake_at_the_same_time_run_in_the_order_of_their_sleeps() {
    let seen = run(async |cpu, log| {
        let spawn = |name, step, times| cpu.spawn(sleeper(cpu.clone(), log.clone(), name, step, times));
        let (a, b, c) = (spawn("a", 30, 2), spawn("b", 20, 3), spawn("c", 60, 1));
        assert_eq!((a.await, b.await, c.await), (Ok(60), Ok(60), Ok(60)));
    });
    // At 60 all three are due: c began its sleep at 0, a at 30 and b at 40.
    let expected = [("b", 20), ("a", 30), ("b", 40), ("c", 60), ("a", 60), ("b", 60)];
    assert_eq!(seen, expected);
}

#[test]
fn spawned_tasks_run_first_in_first_out() {
    let seen = run(async |cpu, log| {
        let note = |name| log.borrow_mut().push((name, 0));
        let task = |name: &'static str| {
            let log = log.clone();
            async move {
                log.borrow_mut().push((name, 0));
                yield_now().await;
                log.borrow_mut().push((name, 0));
            }
        };
        let (one, two) = (cpu.spawn(task("one")), cpu.spawn(task("two")));
        note("main");
        yield_now().await;
        note("main");
        drop(one);
        two.await.unwrap();
    });
    assert_eq!(seen.map_names(), ["main", "one", "two", "main", "one", "two"]);
}

trait Names {
    fn map_names(&self) -> Vec<&'static str>;
}

impl Names for Vec<(&'static str, u64)> {
    fn map_names(&self) -> Vec<&'static str> {
        self.iter().map(|(name, _)| *name).collect()
    }
}

#[test]
fn join_waits_for_both_and_select_for_the_first() {
    let seen = run(async |cpu, log| {
        let sleep = |name, step| sleeper(cpu.clone(), log.clone(), name, step, 1);
        assert_eq!(join(sleep("long", 50), sleep("short", 10)).await, (50, 10));
        assert_eq!(select(sleep("slow", 100), sleep("fast", 30)).await, Either::Right(30));
        assert_eq!(select(sleep("first", 7), sleep("second", 7)).await, Either::Left(7));
        cpu.sleep(ps(1000)).await;
    });
    assert_eq!(seen, [("short", 10), ("long", 50), ("fast", 80), ("first", 87)], "the slow one was dropped");
}

#[test]
fn sleep_until_past_returns_at_once_and_until_never_does_not_return() {
    let seen = run(async |cpu, log| {
        cpu.sleep(ps(10)).await;
        cpu.sleep_until(Time::from_ps(5)).await;
        cpu.sleep(Duration::ZERO).await;
        let which = select(cpu.sleep(Duration::MAX), cpu.sleep(ps(3))).await;
        assert_eq!(which, Either::Right(()));
        log.borrow_mut().push(("end", cpu.now().as_ps()));
    });
    assert_eq!(seen, [("end", 13)]);
}

#[test]
fn rejects_tasks_beyond_limit_until_others_end() {
    run(async |cpu, _| {
        let tasks: Vec<_> = (0..MAX_TASKS).map(|_| cpu.spawn(cpu.sleep(ps(5)))).collect();
        let mut refused = 0;
        for task in tasks {
            refused += u32::from(task.await == Err(SpawnError::TooManyTasks));
        }
        assert_eq!(refused, 1, "one place is the program's own");
        assert_eq!(cpu.spawn(async { 5 }).await, Ok(5));
    });
}

/// Drives a program; the test itself answers its outputs.
struct Host {
    program: AsyncProgram,
    now: Time,
    pool: PayloadPool,
}

impl Host {
    fn new<Fut>(start: impl FnOnce(Cpu) -> Fut) -> Host
    where
        Fut: Future<Output = Result<(), HostError>> + 'static,
    {
        Host { program: AsyncProgram::new(memory(), start), now: Time::ZERO, pool: PayloadPool::new() }
    }

    fn next(&mut self) -> Option<HostOutput> {
        self.program.poll_output(self.now)
    }

    fn answer(&mut self, output: Option<HostOutput>, result: Result<&[u8], HostError>) {
        let id = match output {
            Some(HostOutput::MmioRead { id, .. } | HostOutput::ConfigRead { id, .. }) => id,
            Some(HostOutput::ConfigWrite { id, .. }) => id,
            other => panic!("nothing to answer: {other:?}"),
        };
        let result = result.map(|bytes| Data::Carried(self.pool.copy(bytes)));
        self.program.handle(self.now, HostInput::Done { id, result });
    }
}

#[test]
fn reads_writes_and_configuration_accesses_leave_in_order_and_get_their_answers() {
    let function = Bdf::new(1, 0, 0).unwrap();
    let mut host = Host::new(move |cpu: Cpu| async move {
        cpu.write_u32(0xf000_0000, 0x0403_0201).await?;
        assert_eq!(cpu.read_u64(0xf000_0008).await?, 0x0807_0605_0403_0201);
        cpu.config_write(function, 1, 0b0011, 6).await?;
        assert_eq!(cpu.config_read(function, 0).await?, 0x1234_10ee);
        cpu.read_u32(0xf000_0000).await.map(|_| ())
    });
    let Some(HostOutput::MmioWrite { address: 0xf000_0000, data }) = host.next() else { panic!("no write") };
    assert_eq!(data.bytes(), Some(&[1, 2, 3, 4][..]));
    let read = host.next();
    assert!(matches!(read, Some(HostOutput::MmioRead { address: 0xf000_0008, len: 8, .. })), "{read:?}");
    assert!(host.next().is_none());
    host.answer(read, Ok(&[1, 2, 3, 4, 5, 6, 7, 8]));
    let write = host.next();
    assert!(matches!(
        write,
        Some(HostOutput::ConfigWrite { register_dw: 1, byte_enables: 3, value: 6, function: f, .. }) if f == function
    ));
    host.answer(write, Ok(&[]));
    let read = host.next();
    assert!(matches!(read, Some(HostOutput::ConfigRead { register_dw: 0, .. })), "{read:?}");
    host.answer(read, Ok(&[0xee, 0x10, 0x34, 0x12]));
    let read = host.next();
    assert_eq!(host.program.outcome(), None);
    let refused = HostError::Completion(CompletionError::UnsupportedRequest);
    host.answer(read, Err(refused));
    assert_eq!(host.program.outcome(), Some(Err(refused.into())));
    assert_eq!((host.program.poll_timeout(), host.program.waits_for()), (None, None));
}

#[test]
fn long_accesses_are_split_at_4_kib() {
    let mut host = Host::new(async |cpu: Cpu| {
        let bytes = cpu.read(0xf000_0ffc, 4104).await?;
        assert!(
            bytes.iter().enumerate().all(|(n, byte)| *byte == if n < 4 { 1 } else { 2 + (n > 4099) as u8 })
        );
        assert_eq!(cpu.read(0, 0).await?.len(), 0);
        cpu.write(0xf000_0ffe, &bytes[..4]).await
    });
    for (address, len, byte) in [(0xf000_0ffc, 4, 1), (0xf000_1000, 4096, 2), (0xf000_2000, 4, 3)] {
        let read = host.next();
        let Some(HostOutput::MmioRead { address: a, len: n, .. }) = read else { panic!("{read:?}") };
        assert_eq!((a, n), (address, len));
        host.answer(read, Ok(&vec![byte; len as usize]));
    }
    for address in [0xf000_0ffe, 0xf000_1000] {
        let write = host.next();
        let Some(HostOutput::MmioWrite { address: a, data }) = write else { panic!("{write:?}") };
        assert_eq!((a, data.len()), (address, 2));
    }
    assert_eq!(host.program.outcome(), Some(Ok(())));
}

#[test]
fn rejects_answer_of_wrong_length() {
    for bytes in [&[0u8; 3][..], &[0; 5], &[]] {
        let mut host = Host::new(async |cpu: Cpu| cpu.read_u32(0xf000_0000).await.map(|_| ()));
        let read = host.next();
        host.answer(read, Ok(bytes));
        assert_eq!(host.program.outcome(), Some(Err(HostError::BadCompletion.into())));
    }
}

#[test]
fn interrupts_before_the_wait_are_counted_by_vector() {
    let log = Log::default();
    let seen = Rc::clone(&log);
    let mut host = Host::new(move |cpu: Cpu| async move {
        cpu.sleep(ps(10)).await;
        for name in ["first", "second", "third"] {
            cpu.interrupt(1).await;
            seen.borrow_mut().push((name, cpu.now().as_ps()));
        }
        Ok(())
    });
    assert!(host.next().is_none());
    for vector in [1, 2, 1] {
        host.program.handle(host.now, msi(vector));
    }
    host.now = Time::from_ps(10);
    host.program.handle(host.now, HostInput::Timer);
    let line = host.program.waits_for().unwrap();
    assert!(line.ends_with("waiting for interrupts of vector 1"), "{line}");
    host.now = Time::from_ps(25);
    host.program.handle(host.now, msi(1));
    assert_eq!(*log.borrow(), [("first", 10), ("second", 10), ("third", 25)]);
    assert_eq!(host.program.outcome(), Some(Ok(())));
}

#[test]
fn program_end_drops_its_tasks() {
    let held = Rc::new(());
    let inner = Rc::clone(&held);
    let mut host = Host::new(move |cpu: Cpu| async move {
        let device = cpu.clone();
        cpu.spawn(async move {
            let _inner = inner;
            device.interrupt(0).await;
        });
        cpu.write_u32(0xf000_0000, 1).await
    });
    assert!(host.next().is_some());
    assert_eq!((host.program.outcome(), Rc::strong_count(&held)), (Some(Ok(())), 1));
    assert_eq!(host.program.poll_timeout(), None);
}
