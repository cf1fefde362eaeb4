import type { Call } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { byOf, withTidemark } from '../open.ts'

/** `tidemark restored`, after the database was put back to an earlier state. */
export async function restored(call: Call): Promise<number> {
  await withTidemark(call, async (tidemark, config) => {
    await config.store.migrate('check')
    await tidemark.admin.restored(byOf(call))
  })
  call.io.stdout.write('Every watcher goes on from where the database stands; whoever remembers more is fenced.\n')
  return EXIT.ok
}
