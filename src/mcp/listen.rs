//! Changes of a server's lists in version 2026-07-28, in which a client asks for them with a request that stays open. Older
//! versions announce them unasked.

use std::time::Duration;

use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{Peer, RoleClient, ServiceError};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

/// Waits before the request is sent again after its end, by the number of times that it ended. After the last one the lists are
/// only fetched with the next start.
const AGAIN: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(300)];

/// A task that ends when this is dropped.
pub(super) struct Task(JoinHandle<()>);

impl Task {
    pub(super) fn of(handle: JoinHandle<()>) -> Self {
        Self(handle)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Subscribes to changes of the lists that a server declares as changeable, as long as the task lives; returns `None` if there
/// are none or it announces them unasked.
pub(super) fn listen(peer: &Peer<RoleClient>, changed: UnboundedSender<()>) -> Option<Task> {
    let info = peer.peer_info()?;
    if info.protocol_version.as_str() < ProtocolVersion::V_2026_07_28.as_str() {
        return None;
    }
    let capabilities = &info.capabilities;
    let mut wanted = SubscriptionFilter::new();
    wanted.tools_list_changed = capabilities.tools.as_ref().and_then(|it| it.list_changed).filter(|it| *it);
    wanted.prompts_list_changed = capabilities.prompts.as_ref().and_then(|it| it.list_changed).filter(|it| *it);
    wanted.resources_list_changed = capabilities.resources.as_ref().and_then(|it| it.list_changed).filter(|it| *it);
    if wanted == SubscriptionFilter::new() {
        return None;
    }
    let peer = peer.clone();
    Some(Task(tokio::spawn(async move {
        for (round, wait) in AGAIN.into_iter().enumerate() {
            match peer.listen(wanted.clone()).await {
                Ok(mut stream) => {
                    if round > 0 {
                        // A list may have changed while there was no subscription.
                        let _ = changed.send(());
                    }
                    while let Ok(Some(_)) = stream.next().await {
                        let _ = changed.send(());
                    }
                }
                // It doesn't know the request.
                Err(ServiceError::McpError(_)) => return,
                Err(_) => {}
            }
            if peer.is_transport_closed() {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    })))
}
