import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { wait } from '../../util/op.ts'
import { sqlite } from './index.ts'
import { migrations } from './migrations.ts'

const children: ChildProcess[] = []
const folders: string[] = []

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tidemark-sqlite-'))
  folders.push(folder)
  return join(folder, 'test.db')
}

const jiti = pathToFileURL(createRequire(import.meta.url).resolve('jiti')).href

/** A process of its own that runs `body` on a store on `file`, with the sources of this checkout. */
function run(file: string, body: string) {
  const code = `
    import jiti from ${JSON.stringify(jiti)}
    const load = (jiti.createJiti ?? jiti)(${JSON.stringify(import.meta.url)})
    const { sqlite } = await load.import('./index.ts')
    const store = sqlite({ file: ${JSON.stringify(file)}, busyTimeoutMs: 10_000 })
    ${body}`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', code], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(child)
  return child
}

async function output(child: ChildProcess): Promise<string> {
  let text = ''
  child.stdout?.on('data', (chunk) => {
    text += chunk
  })
  await once(child, 'close')
  return text.trim()
}

// Each starts Node and compiles the sources: seconds on a busy machine.
describe('a second process on the file', { timeout: 60_000 }, () => {
  test('is refused while the first lives, and let in at once when that is killed', async () => {
    const file = newFile()
    const store = sqlite({ file })
    await store.migrate('auto')
    const holder = run(
      file,
      "const lease = await store.acquire('w/ethereum'); console.log(lease ? 'held' : 'refused'); setInterval(() => lease, 1e6)",
    )
    const [line] = await once(holder.stdout as NonNullable<typeof holder.stdout>, 'data')
    expect(String(line).trim()).toBe('held')
    expect(await store.acquire('w/ethereum')).toBeNull()
    holder.kill('SIGKILL')
    await once(holder, 'exit')
    expect(await store.acquire('w/ethereum')).not.toBeNull()
    await store.close()
  })

  test('three that migrate a new file at the same moment: one does it, none fails', async () => {
    const file = newFile()
    // Each says that it is ready and waits for a line, so that they start together.
    const body = `
      process.stdin.once('data', async () => {
        console.log((await store.migrate('auto')).applied.length)
        process.exit()
      })
      console.log('ready')`
    const three = [run(file, body), run(file, body), run(file, body)]
    const outputs = three.map(output)
    await Promise.all(three.map((child) => once(child.stdout as NonNullable<typeof child.stdout>, 'data')))
    for (const child of three) child.stdin?.end('go\n')
    const applied = (await Promise.all(outputs)).map((text) => Number(text.split('\n')[1]))
    expect(applied.reduce((sum, n) => sum + n)).toBe(migrations.length)
  })

  test('two processors of the same events read, then write, and each event ends processed once (C57)', async () => {
    const file = newFile()
    const store = sqlite({ file })
    await store.migrate('auto')
    const EVENTS = 150
    const body = `
      let applied = 0
      for (let n = 0; n < ${EVENTS}; n++) {
        await store.transact(function* (tx) {
          const key = 'event-' + n
          if (tx.handled.find({ scope: 's', chainId: 1, key })) return
          tx.handled.insert({ scope: 's', chainId: 1, key }, n, 1)
          applied++
        })
        await new Promise((next) => setImmediate(next))
      }
      console.log(applied)`
    const counts = await Promise.all([output(run(file, body)), output(run(file, body))])
    expect(Number(counts[0]) + Number(counts[1])).toBe(EVENTS)
    expect(await store.read((tx) => wait(tx.handled.count('s')))).toBe(EVENTS)
    await store.close()
  })

  test('a process killed inside its transaction leaves nothing of it (P1)', async () => {
    const file = newFile()
    const store = sqlite({ file })
    await store.migrate('auto')
    const victim = run(
      file,
      `await store.transact(function* (tx) {
        for (let n = 0; n < 5000; n++) tx.handled.insert({ scope: 's', chainId: 1, key: 'event-' + n }, n, 1)
        process.kill(process.pid, 'SIGKILL')
      })`,
    )
    const [, signal] = await once(victim, 'exit')
    expect(signal).toBe('SIGKILL')
    expect(await store.read((tx) => wait(tx.handled.count('s')))).toBe(0)
    expect(
      await store.transact((tx) => wait(tx.handled.insert({ scope: 's', chainId: 1, key: 'event-1' }, 1 as never, 1))),
    ).toBe('new')
    await store.close()
  })
})
