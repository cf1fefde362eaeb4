import { defineConfig } from '../../config.ts'
import { sqlite } from '../../store/sqlite/index.ts'
import { createTidemark } from '../tidemark.ts'
import type { TidemarkEvents } from '../types.ts'
import { transfers } from './watchers.ts'

/** What the watcher's process tells the demo. */
export type ChildMessage = { [K in keyof TidemarkEvents]: { type: K; event: TidemarkEvents[K] } }[keyof TidemarkEvents]

/** The watcher's own process: an ordinary Tidemark that knows nothing of the faults around it, nor of being killed. */
async function main(): Promise<void> {
  const [url, file] = process.argv.slice(2)
  const tidemark = createTidemark(
    defineConfig({
      store: sqlite({ file }),
      chains: { demo: { id: 31_337, rpc: [url], finality: 'tag', pollMs: 50, timeoutMs: 700, maxRange: 40 } },
      watchers: { transfers },
    }),
  )
  const tell = <K extends keyof TidemarkEvents>(type: K) =>
    tidemark.on(type, (event) => {
      if (process.connected) process.send?.({ type, event })
    })
  for (const type of ['applied', 'undone', 'settled', 'halted', 'failing', 'recovered'] as const) tell(type)
  process.on('disconnect', () => process.exit(1)) // the demo is gone: nobody is left to watch
  process.once('message', () => void tidemark.stop().then(() => process.exit(0)))
  await tidemark.start()
}

void main()
