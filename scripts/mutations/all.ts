import { collectMutations } from './collect.ts'
import { commitMutations } from './commit.ts'
import { leaseMutations } from './lease.ts'
import type { Equivalent, Mutation } from './mutation.ts'
import { settleMutations } from './settle.ts'
import { totalsMutations } from './totals.ts'
import { undoMutations } from './undo.ts'

/** The ways in which the engine is broken on purpose, along the journey of an event. */
export const MUTATIONS: readonly Mutation[] = [
  ...collectMutations,
  ...commitMutations,
  ...undoMutations,
  ...settleMutations,
  ...totalsMutations,
  ...leaseMutations,
]

/** Guards that cannot be missed, since another one stands behind them; and changes that cost work and break no promise. */
export const EQUIVALENT: readonly Equivalent[] = [
  {
    name: 'epoch not checked under the lock',
    file: 'handle/run.ts',
    because:
      'while watchers run, only the holder of the lease rolls back: whoever else did has changed the token, which is compared before',
  },
  {
    name: 'cursor compared by number under the lock',
    file: 'handle/run.ts',
    because: 'another hash at the same number needs a rollback, which raises the epoch',
  },
  {
    name: 'flag of the driver not asked before the cursor moves',
    file: 'handle/run.ts',
    because:
      'a statement of Tidemark outside a transaction is refused by the connection, and the cursor moves only where the nonce stands',
  },
  {
    name: 'savepoint of a handler not released',
    file: 'handle/scope.ts',
    because: 'COMMIT releases it; a handler that ended the transaction is found by the nonce, and named less well',
  },
  {
    name: 'commit unknown taken as failed',
    file: 'handle/run.ts',
    because:
      'the run stands down and reads the row again, which tells what happened; only the message to listeners is lost',
  },
  {
    name: 'rest of a batch used although the cursor moved',
    file: 'app/runner.ts',
    because: 'a batch must start right above the cursor: the commit itself refuses it, under the lock',
  },
  {
    name: 'settled at once over unsettled blocks',
    file: 'handle/run-batch.ts',
    because:
      'a range is final before it is applied only after the source has settled everything below it; duplicates have a guard of their own',
  },
  {
    name: 'a rollback may pass the settled line',
    file: 'settle/rollback.ts',
    because: 'the source judges every ancestor against the settled line, and halts',
  },
  {
    name: 'cursor not the witness of a final range',
    file: 'collect/backfill.ts',
    because: 'within 1,024 blocks of the head the headers link to the cursor; further down no branch ends',
  },
  {
    name: 'logs marked as removed not dropped',
    file: 'collect/answer.ts',
    because:
      'they name a block of another branch, and an answer with two blocks at a height, or with one that is not in the line, is refused: it costs repeats',
  },
  {
    name: 'bloom that says "perhaps" accepted at once',
    file: 'collect/empty.ts',
    because: 'the second reading finds what was withheld before it settles: it comes later, and is not lost',
  },
  {
    name: 'sibling of equal height followed',
    file: 'collect/branch.ts',
    because: 'each change of branch is an ordinary rollback: two providers make it flip, which costs work',
  },
  {
    name: 'tip of a step not remembered',
    file: 'collect/follow.ts',
    because: 'the cursor is remembered by the next step, and is among the remembered blocks before that',
  },
  {
    name: 'stable id with the log index in it',
    file: 'dedup/identity.ts',
    because: 'inside a watcher marks are per occurrence; the tests of the parts used alone hold the id still',
  },
]
