//! A connection to PostgreSQL on which a statement can be sent before the answer to the last one has arrived. It must not know
//! any statement.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Error, Socket, Statement};

use super::value::Owned;

/// Moves bytes from and to the server, and returns its unsolicited messages.
type Driver = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

/// The answer to a statement that isn't waited for.
type Answer = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A connection.
pub struct Wire {
    runtime: Runtime,
    client: Arc<Client>,
    /// `None` once the connection is lost.
    driver: Option<Driver>,
    /// Answers that weren't awaited yet, the oldest first.
    open: VecDeque<Answer>,
    notifications: VecDeque<String>,
}

impl Wire {
    /// Connects; `runtime` has a single thread.
    ///
    /// # Errors
    /// The server can't be reached, or refuses.
    pub fn connect<T>(runtime: Runtime, config: &Config, tls: T) -> Result<Self, Error>
    where
        T: MakeTlsConnect<Socket, TlsConnect: Send, Stream: Send + 'static> + Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let (client, mut connection) = runtime.block_on(config.connect(tls))?;
        Ok(Self {
            runtime,
            client: Arc::new(client),
            driver: Some(Box::new(move |context| connection.poll_message(context))),
            open: VecDeque::new(),
            notifications: VecDeque::new(),
        })
    }

    /// Returns whether the connection is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.driver.is_none()
    }

    /// Runs statements without parameters; their answer is awaited with the next one.
    pub fn run_later(&mut self, sql: String) {
        let client = Arc::clone(&self.client);
        self.later(async move { client.batch_execute(&sql).await });
    }

    /// Runs a statement; its answer is awaited with the next one.
    pub fn execute_later(&mut self, statement: Statement, values: Vec<Owned>) {
        let client = Arc::clone(&self.client);
        self.later(async move { client.execute_raw(&statement, values).await.map(drop) });
    }

    fn later(&mut self, answer: impl Future<Output = Result<(), Error>> + Send + 'static) {
        let mut answer: Answer = Box::pin(answer);
        // The first poll queues the request after the earlier ones.
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => self.open.push_back(answer),
            Poll::Ready(result) => self.open.push_back(Box::pin(std::future::ready(result))),
        }
    }

    /// Sends a request, and waits for its answer and all open ones.
    ///
    /// # Errors
    /// The first of these answers that is an error, or the connection is lost.
    pub fn wait<T>(&mut self, ask: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, Error> {
        let client = Arc::clone(&self.client);
        let (mut asked, mut answered, mut failed) = (pin!(ask(&client)), None, None);
        let Self { runtime, driver, open, notifications, .. } = self;
        let mut is_answered = |context: &mut Context<'_>| {
            if answered.is_none()
                && let Poll::Ready(result) = asked.as_mut().poll(context)
            {
                answered = Some(result);
            }
            while let Some(oldest) = open.front_mut() {
                let Poll::Ready(result) = oldest.as_mut().poll(context) else { return Poll::Pending };
                open.pop_front();
                failed = failed.take().or(result.err());
            }
            answered.take().map_or(Poll::Pending, |last| Poll::Ready(failed.take().map_or(last, Err)))
        };
        runtime.block_on(poll_fn(|context| {
            if let ready @ Poll::Ready(_) = is_answered(context) {
                return ready;
            }
            drive(driver, notifications, context)?;
            is_answered(context)
        }))
    }

    /// Sends the queued requests.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn send(&mut self) -> Result<(), Error> {
        let Self { runtime, driver, notifications, .. } = self;
        runtime.block_on(poll_fn(|context| Poll::Ready(drive(driver, notifications, context))))
    }

    /// Checks whether the server has ended the connection.
    pub fn look(&mut self) {
        // While this yields, the system is asked for incoming data.
        self.runtime.block_on(tokio::task::yield_now());
        let _ = self.send();
    }

    /// The next notification of a channel that is listened to; `None` if none comes until then.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn notification(&mut self, until: Instant) -> Result<Option<String>, Error> {
        let Self { runtime, driver, notifications, .. } = self;
        let next = poll_fn(|context| {
            drive(driver, notifications, context)?;
            match notifications.pop_front() {
                Some(payload) => Poll::Ready(Ok(Some(payload))),
                None if driver.is_none() => Poll::Ready(Ok(None)),
                None => Poll::Pending,
            }
        });
        runtime.block_on(async { tokio::time::timeout_at(until.into(), next).await }).unwrap_or(Ok(None))
    }
}

/// Moves what can be moved now. A connection that ends is dropped, so that nothing waits for its answers.
fn drive(
    driver: &mut Option<Driver>,
    notifications: &mut VecDeque<String>,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    while let Some(Poll::Ready(message)) = driver.as_mut().map(|driver| driver(context)) {
        match message {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                notifications.push_back(notification.payload().to_owned());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                *driver = None;
                return Err(error);
            }
            None => *driver = None,
        }
    }
    Ok(())
}
