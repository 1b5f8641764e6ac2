// The way back from a change of a canvas. Pure.
import { fold } from './sync.js';

/** Operations that undo others, which are about to be applied to `atoms`. */
export function inverse(atoms, ops) {
  let now = atoms;
  const back = [];
  for (const op of ops) {
    back.unshift(...before(now, op));
    now = fold(now, [op]);
  }
  return back;
}

function before(atoms, op) {
  if (op.op === 'create') return [{ op: 'delete', id: op.atom.id }];
  const atom = atoms[op.id];
  if (!atom) return [];
  if (op.op === 'delete') return family(atoms, atom).map((it) => ({ op: 'create', atom: it }));
  if (op.op === 'move') return [{ op: 'move', id: op.id, parent: atom.parent ?? null, order: atom.order }];
  // What isn't there is taken away again from where it began to be missing.
  const parts = op.path.split('/').slice(1);
  let value = atom.props;
  for (let depth = 0; depth < parts.length; depth += 1) {
    value = value?.[parts[depth].replace(/~1/g, '/').replace(/~0/g, '~')];
    if (value === undefined) return op.op === 'set' ? [{ op: 'unset', id: op.id, path: `/${parts.slice(0, depth + 1).join('/')}` }] : [];
  }
  return [{ op: 'set', id: op.id, path: op.path, value }];
}

/** An atom and all below it, parents first. */
function family(atoms, atom) {
  return [atom, ...Object.values(atoms).filter((it) => it.parent === atom.id).flatMap((it) => family(atoms, it))];
}
