// What every screen shows of the gateway's state: the open questions, and whether everything is stopped.
import { api } from './api.js';
import { get, set } from './store.js';

/** Loads both. */
export async function refresh() {
  if (['approver', 'operator', 'admin'].includes(get().role)) {
    const { items } = await api('GET', '/questions?state=open');
    set({ questions: items });
  }
  const status = await api('GET', '/status');
  set({ stopped: status.estop || status.kill_switches > 0 });
}
