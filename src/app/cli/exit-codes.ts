import { type ErrorCode, TidemarkError } from '../../errors.ts'

/**
 * What the exit code of `tidemark` says. The one place; `--help` prints this table.
 *
 * `run` ends with 0 after a clean stop: on SIGINT or SIGTERM once the open step was finished, or when every watcher has
 * reached its `endBlock`. A halted watcher does not end `run`: it stays up, so that `tidemark resume` takes effect.
 */
export const EXIT = {
  ok: 0,
  /** Any other error, named by its code; one without a code is a bug. */
  failed: 1,
  /** Wrong command, flag or configuration; nothing was started. */
  usage: 2,
  /** The store refused: locked by another process, of a newer version, to be migrated, not writable, full. */
  store: 3,
  /** `status` found a halted watcher: for scripts that ask whether a person is needed. */
  halted: 4,
  /** `demo`: the database differs from a naive replay of the final chain. `simulate`: from that of a clean run. */
  different: 5,
  /** A second SIGINT during the stop: ended at once. As safe as a crash, so nothing is lost. */
  interrupted: 130,
  /** A second signal, SIGTERM, during the stop. */
  terminated: 143,
} as const

export const EXIT_HELP: readonly (readonly [code: number, meaning: string])[] = [
  [EXIT.ok, 'done; or stopped by one SIGINT or SIGTERM; or every watcher reached its endBlock'],
  [EXIT.failed, 'any other error, named by its code'],
  [EXIT.usage, 'wrong command, flag or configuration'],
  [EXIT.store, 'the store refused: locked, newer, to be migrated, not writable, full'],
  [EXIT.halted, 'status: at least one watcher is halted'],
  [EXIT.different, 'demo, simulate: the databases differ'],
  [EXIT.interrupted, 'ended at once by a second SIGINT (143: by SIGTERM)'],
]

const USAGE = ['CONFIG_', 'COMMAND_', 'FLAG_', 'WATCHER_', 'ABI_', 'EVENT_ARGS_', 'STORE_URL_', 'STORE_TABLE_']

/** By code alone. Longer beginnings of a family come before `STORE_`. */
export function exitCodeOf(error: unknown): number {
  if (!TidemarkError.is(error)) return EXIT.failed
  const code: ErrorCode = error.code
  if (USAGE.some((beginning) => code.startsWith(beginning))) return EXIT.usage
  return code.startsWith('STORE_') ? EXIT.store : EXIT.failed
}
