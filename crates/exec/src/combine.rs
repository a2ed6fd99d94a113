// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several futures in one task, always polled in the order in which they are written.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// The outputs of both futures, once both have ended.
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

/// The outputs of all futures in their order, once all have ended. Allocates nothing; a future that is not `Unpin`,
/// such as that of an `async fn`, is passed as `Box::pin(future)`.
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

/// The output of the future that ends first; of `a` if both end at once. The other is dropped, and what it waited for given up.
pub async fn select<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Either::Left(output)),
        Poll::Pending => b.as_mut().poll(cx).map(Either::Right),
    })
    .await
}

/// Lets every task that is ready now run first. No time passes: a task that waits for something by this alone never
/// sees it come, and is stopped after [`MAX_POLLS_PER_INSTANT`](super::MAX_POLLS_PER_INSTANT).
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
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
