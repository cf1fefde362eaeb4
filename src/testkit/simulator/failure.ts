/**
 * What a run can find:
 *
 * - a broken promise seen in the database: `order`, `one commit`, `cursor`, `marks`, `undo`, `settled`, `final`,
 *   `fencing`, `bounds`, `content`
 * - `halt`: a watcher stopped without a reason for it; `unexpected`: an error that nothing provoked
 * - `liveness`: faults have ended and a watcher does not settle; `oracle`: the end differs from a naive replay
 * - `simulator`: the simulator itself broke
 */
export type FailureKind =
  | 'order'
  | 'one commit'
  | 'cursor'
  | 'marks'
  | 'undo'
  | 'settled'
  | 'final'
  | 'fencing'
  | 'bounds'
  | 'content'
  | 'halt'
  | 'unexpected'
  | 'liveness'
  | 'oracle'
  | 'simulator'

/** Ends a run: a promise was broken. */
export class SimulationFailure extends Error {
  readonly kind: FailureKind

  constructor(kind: FailureKind, words: string) {
    super(words)
    this.kind = kind
  }
}

export function fail(kind: FailureKind, words: string): never {
  throw new SimulationFailure(kind, words)
}

/** Ends the run with `kind` unless `holds`. */
export function must(holds: boolean, kind: FailureKind, words: () => string): void {
  if (!holds) fail(kind, words())
}
