import type { Call } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { byOf, withTidemark } from '../open.ts'

/** `tidemark rename <old> <new>`, after a watcher got another name in the configuration. */
export async function rename(call: Call): Promise<number> {
  const [from = '', to = ''] = call.args
  await withTidemark(call, async (tidemark, config) => {
    await config.store.migrate('check')
    await tidemark.admin.rename(from, to, byOf(call))
  })
  call.io.stdout.write(`${from} is now ${to}; its cursor and marks went with it.\n`)
  return EXIT.ok
}
