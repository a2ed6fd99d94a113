// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Combines several futures in one task. The futures are always polled in the order in which they are written.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// Returns the outputs of both futures when both have ended.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut output_a, mut output_b) = (None, None);
    poll_fn(|cx| {
        poll_once(a.as_mut(), &mut output_a, cx);
        poll_once(b.as_mut(), &mut output_b, cx);
        match (output_a.take(), output_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (output_a, output_b) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// Returns the outputs of all futures, in order, when all have ended. Allocates nothing. A future that is not `Unpin`, such as
/// the future of an `async fn`, is passed as `Box::pin(future)`.
pub async fn join_array<F: Future + Unpin, const N: usize>(mut futures: [F; N]) -> [F::Output; N] {
    let mut outputs = [const { None }; N];
    poll_fn(|cx| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            poll_once(Pin::new(future), output, cx);
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.map(|output| output.expect("all outputs are there"))
}

fn poll_once<F: Future>(future: Pin<&mut F>, output: &mut Option<F::Output>, cx: &mut Context<'_>) {
    if output.is_none()
        && let Poll::Ready(value) = future.poll(cx)
    {
        *output = Some(value);
    }
}

/// The output of the future that ended first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Either<A, B> {
    /// The output of the first future.
    Left(A),
    /// The output of the second future.
    Right(B),
}

/// Returns the output of the future that ends first, or of `a` if both end at the same time. The other future is
/// dropped, which abandons its operation.
pub async fn select<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Either::Left(output)),
        Poll::Pending => b.as_mut().poll(cx).map(Either::Right),
    })
    .await
}

/// Lets all tasks that are ready run first. No time passes. A task that waits for an event only in this way never sees
/// the event, and is stopped after [`MAX_POLLS_PER_INSTANT`](super::MAX_POLLS_PER_INSTANT) polls.
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// Future of [`yield_now`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
