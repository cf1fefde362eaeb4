import { TidemarkError } from '../../src/errors.ts'
import type { MysqlDb, MysqlStore } from '../../src/store/mysql/index.ts'
import type { DbScope, ScopeRules } from '../../src/store/store.ts'
import { wait } from '../../src/util/op.ts'

const rules: ScopeRules = { mayWrite: true, values: { watcher: 'w' }, deadline: Number.POSITIVE_INFINITY }

/** What a handler of a test does with its `db`. */
export type Handler<T> = (db: MysqlDb, scope: DbScope<MysqlDb>) => T | Promise<T>

/** Runs a handler as the engine does: a write of Tidemark's own before it, the guard closed after it. */
export function handle<T>(store: MysqlStore, work: Handler<T>, changed: Partial<ScopeRules> = {}): Promise<T> {
  return store.transact(function* (tx) {
    yield* wait(tx.meta.set('written', 'with the handler'))
    const scope = tx.openScope({ ...rules, ...changed })
    let result: T
    try {
      result = yield* wait(work(scope.db, scope))
    } catch (error) {
      yield* wait(scope.close('threw'))
      throw error
    }
    yield* wait(scope.close('returned'))
    return result
  })
}

/** What Tidemark itself wrote in `handle`; null when that was rolled back. */
export function writtenWith(store: MysqlStore): Promise<string | null> {
  return store.read((tx) => wait(tx.meta.get('written')))
}

/** The code of what `work` fails with; the driver's code or the class for other errors; 'nothing' when it does not fail. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work
    return 'nothing'
  } catch (error) {
    if (TidemarkError.is(error)) return error.code
    return String((error as { code?: unknown }).code ?? (error as Error).name)
  }
}
