import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'vite'

/**
 * The size budget of the main entry, minified and compressed: what `import 'tidemark'` costs before any store is
 * named. `own` leaves dependencies out, `withDependencies` bundles them; `node:` modules are never counted.
 * Budgets are bytes. Raise one in the commit that needs it, with the reason in the message: `--set` writes what is
 * measured now and 15 % of room.
 */
const ROOM = 1.15
const root = resolve(import.meta.dirname, '..')
const budgetFile = resolve(root, 'scripts/size-budget.json')

type Budget = Readonly<Record<'own' | 'withDependencies', number>>

async function measure(external: readonly RegExp[]): Promise<number> {
  const result = await build({
    root,
    configFile: false,
    logLevel: 'error',
    build: {
      ssr: true,
      target: 'es2023',
      minify: true,
      write: false,
      rollupOptions: {
        input: resolve(root, 'dist/index.js'),
        external: [...external],
        preserveEntrySignatures: 'strict',
      },
    },
    ssr: { noExternal: true },
  })
  const outputs = [result].flat().flatMap((bundle) => ('output' in bundle ? bundle.output : []))
  const code = outputs.map((chunk) => (chunk.type === 'chunk' ? chunk.code : '')).join('')
  return gzipSync(code, { level: 9 }).length
}

function report(name: string, bytes: number, budget: number): boolean {
  const fits = bytes <= budget
  const share = ((100 * bytes) / budget).toFixed(0)
  console.log(`${fits ? 'ok' : 'TOO LARGE'}: ${name} ${bytes} bytes of ${budget} (${share} %)`)
  return fits
}

async function main(): Promise<void> {
  const node = /^node:/
  const measured: Budget = { own: await measure([node, /^[^./]/]), withDependencies: await measure([node]) }
  if (process.argv.includes('--set')) {
    const roomy = Object.entries(measured).map(([name, bytes]) => [name, Math.ceil(bytes * ROOM)])
    writeFileSync(budgetFile, `${JSON.stringify(Object.fromEntries(roomy), null, 2)}\n`)
  }
  const budget = JSON.parse(readFileSync(budgetFile, 'utf8')) as Budget
  const own = report('own', measured.own, budget.own)
  const whole = report('withDependencies', measured.withDependencies, budget.withDependencies)
  if (!own || !whole) process.exitCode = 1
}

await main()
