// A canvas on this side: the server's state, and commands that it hasn't stored yet. Pure but for `send`, which takes the
// function that asks the server.

/** Seconds after which a command is sent again, if the gateway doesn't say when. */
export const AGAIN_S = 5;

/** Applies operations to atoms; returns new ones. An operation that doesn't fit any more is left out. */
export function fold(atoms, ops) {
  // Without a prototype, so that an id may be any text, such as "constructor".
  const next = bare(atoms);
  for (const op of ops) {
    if (op.op === 'create') { if (!next[op.atom.id]) next[op.atom.id] = op.atom; continue; }
    const atom = next[op.id];
    if (!atom) continue;
    if (op.op === 'delete') {
      const gone = [op.id];
      while (gone.length) {
        const id = gone.pop();
        delete next[id];
        for (const other of Object.values(next)) if (other.parent === id) gone.push(other.id);
      }
    } else if (op.op === 'move') next[op.id] = { ...atom, parent: op.parent ?? undefined, order: op.order };
    else next[op.id] = { ...atom, props: place(atom.props, op.path.split('/').slice(1).map(unescape), op.op === 'set' ? op.value : undefined) };
  }
  return next;
}

const bare = (value) => Object.assign(Object.create(null), value);
const unescape = (part) => part.replace(/~1/g, '/').replace(/~0/g, '~');

function place(value, [name, ...rest], leaf) {
  // Taking away what isn't there makes nothing on the way.
  if (leaf === undefined && (!value || typeof value !== 'object')) return value;
  const copy = bare(value && typeof value === 'object' ? value : {});
  const next = rest.length ? place(copy[name], rest, leaf) : leaf;
  if (next === undefined) delete copy[name];
  else copy[name] = next;
  return copy;
}

/** The atoms as they are shown: the server's with what is pending, in reading order. */
export function draw(sync) {
  const atoms = sync.pending.reduce((all, { ops }) => fold(all, ops), sync.atoms);
  return Object.values(atoms).sort((a, b) => (a.order < b.order ? -1 : a.order > b.order ? 1 : a.id < b.id ? -1 : 1));
}

/** Takes a commit in. One that is there already changes nothing; one too far ahead is a gap, for which a snapshot is needed. */
export function apply(sync, commit) {
  if (commit.rev <= sync.rev) return 'old';
  if (commit.rev > sync.rev + 1) return 'gap';
  sync.rev = commit.rev;
  sync.atoms = fold(sync.atoms, commit.ops);
  sync.pending = sync.pending.filter(({ key }) => key !== (commit.idempotency_key ?? commit.key));
  return 'applied';
}

/** Whether a request that failed so may be taken later: the gateway is busy, or asks to wait. */
export const isLater = (status) => status >= 500 || [401, 408, 429].includes(status);

/** Sends what is pending, the oldest first, until a gate holds it or it can't be sent. A command that may be taken later
 * stays; the answer says in how many seconds to send it again, if that doesn't depend on the connection. */
export async function send(sync, ask) {
  let rebased = false;
  if (sync.isSending) return { isBusy: true };
  while (sync.pending.length && !sync.held) {
    const command = sync.pending[0];
    sync.isSending = true;
    try {
      const done = await ask({ base_rev: sync.rev, ops: command.ops, idempotency_key: command.key, merge: 'disjoint' });
      const still = sync.pending.indexOf(command);
      if (still >= 0) {
        sync.pending.splice(still, 1);
        if (done.head_rev === sync.rev + 1) {
          sync.rev = done.head_rev;
          sync.atoms = fold(sync.atoms, command.ops);
        } else if (done.head_rev > sync.rev) return { rebased, isGap: true };
      }
    } catch (error) {
      if (error.code === 'conflict') {
        const { head_rev: head, recovery_ops: ops } = error.whole;
        // Too much has changed for a recovery.
        if (!ops?.length) return { rebased, isGap: true, againS: 1 };
        sync.atoms = fold(sync.atoms, ops);
        sync.rev = head;
        rebased = true;
      } else if (error.status === 403) {
        sync.held = { code: error.code, message: error.message, context: error.context };
        return { rebased };
      } else if (error.status === 0) return { error };
      else if (isLater(error.status)) return { error, againS: error.retryAfterS ?? AGAIN_S };
      else {
        sync.pending.shift();
        return { error };
      }
    } finally { sync.isSending = false; }
  }
  return { rebased };
}
