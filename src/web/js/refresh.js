// What every screen shows of the gateway's state: the open questions, and whether everything is stopped.
import { api } from './api.js';
import { get, set } from './store.js';

/** Loads both. */
export async function refresh() {
  const { user, role } = get();
  // An answer that comes after the session was left belongs to nobody here.
  const put = (change) => { if (get().user === user && get().role === role) set(change); };
  if (['approver', 'operator', 'admin'].includes(role)) {
    const { items } = await api('GET', '/questions?state=open');
    put({ questions: items });
  } else put({ questions: [] });
  const status = await api('GET', '/status');
  put({ stopped: status.estop || status.kill_switches > 0 });
}
