// Plays seeds on one copy of the engine, one after the other, until one fails. Run as a process of its own:
//   node worker.mjs DIST '{"seeds":[1,2,3],"options":{}}'
// Writes a line of JSON for each thing that happens: { ready }, { alive } while a run makes progress, { seed, … } after it.
import { writeSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

/** Milliseconds between two signs of life. */
const ALIVE_MS = 500

const [dist = '', input = '{}'] = process.argv.slice(2)
const { seeds, options } = JSON.parse(input)

// At once and in order, also out of a loop that never comes back to the event loop.
const tell = (message) => writeSync(1, `${JSON.stringify(message)}\n`)

const load = (path) => import(pathToFileURL(`${dist}/testkit/simulator/${path}`).href)
const { simulate } = await load('simulate.js')
const url = process.env.TIDEMARK_MUTANT_DATABASE
// The process is killed at its end, and the database is dropped by whoever made it.
const where = url ? { database: await (await load('postgres/database.js')).PgDatabase.open(url) } : {}
tell({ ready: true })

let told = performance.now()
function onStep() {
  if (performance.now() - told < ALIVE_MS) return
  told = performance.now()
  tell({ alive: true })
}

for (const seed of seeds) {
  const started = performance.now()
  const { ok, failure } = await simulate({ seed, options, ...where, onStep })
  const seconds = (performance.now() - started) / 1000
  tell({ seed, ok, kind: failure?.kind ?? '', words: failure?.words.slice(0, 500) ?? '', seconds })
  if (!ok) break
}
