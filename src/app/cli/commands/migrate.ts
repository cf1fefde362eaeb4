import type { Store } from '../../../store/store.ts'
import type { Call } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { openConfig } from '../open.ts'

async function answerOf(store: Store, flags: Call['flags']): Promise<string> {
  if (flags.sql) return store.pendingSql()
  const { from, to, applied } = await store.migrate(flags.check ? 'check' : 'auto')
  if (applied.length === 0) return `The schema is at version ${to}; nothing to do.\n`
  return `Migrated from version ${from} to ${to}: ${applied.join(', ')}.\n`
}

/** `tidemark migrate [--check] [--sql]`. */
export async function migrate(call: Call): Promise<number> {
  const { store } = await openConfig(call)
  try {
    call.io.stdout.write(await answerOf(store, call.flags))
    return EXIT.ok
  } finally {
    await store.close()
  }
}
