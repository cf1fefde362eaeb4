import type { Call } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { byOf, withTidemark } from '../open.ts'

/** `tidemark resume <watcher>`: a running process sees it at its next look; no restart is needed. */
export async function resume(call: Call): Promise<number> {
  const [watcher = ''] = call.args
  await withTidemark(call, async (tidemark, config) => {
    await config.store.migrate('check')
    await tidemark.admin.resume(watcher, byOf(call), { acceptReorg: call.flags['accept-reorg'] === true })
  })
  call.io.stdout.write(`${watcher} may run again.\n`)
  return EXIT.ok
}
