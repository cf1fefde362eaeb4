import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const jiti = pathToFileURL(createRequire(import.meta.url).resolve('jiti')).href

const children: ChildProcess[] = []

/** A process of its own that works on a store. It says what it does, a line at a time. */
export interface StoreProcess {
  readonly child: ChildProcess
  /** The next line that it prints. @throws when it ends before */
  line(): Promise<string>
  /** Gives it a line to read. */
  say(line: string): void
  /** Its exit code, once it has ended. */
  ended(): Promise<number | null>
}

/**
 * Starts a process that runs `body` with `store`, `wait`, `print` and `heard` (the next line it is told) at hand, on the
 * sources of this checkout.
 */
export function startProcess(options: object, body: string): StoreProcess {
  const code = `
    import jiti from ${JSON.stringify(jiti)}
    import { createInterface } from 'node:readline'
    const load = (jiti.createJiti ?? jiti)(${JSON.stringify(import.meta.url)})
    const { mysql } = await load.import('../../src/store/mysql/index.ts')
    const { wait } = await load.import('../../src/util/op.ts')
    const input = createInterface({ input: process.stdin })
    const heard = () => new Promise((resolve) => input.once('line', resolve))
    const print = (line) => process.stdout.write(line + '\\n')
    const store = mysql(${JSON.stringify(options)})
    ${body}
    input.close()`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', code], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(child)
  const lines = linesOf(child)
  const ended = once(child, 'close').then(() => child.exitCode)
  const line = async () => {
    const { value, done } = await lines.next()
    if (done) throw new Error('the process ended without saying more')
    return value
  }
  return { child, line, say: (text) => child.stdin?.write(`${text}\n`), ended: () => ended }
}

async function* linesOf(child: ChildProcess): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of child.stdout ?? []) {
    const parts = `${rest}${chunk}`.split('\n')
    rest = parts.pop() ?? ''
    yield* parts
  }
}

/** Ends what a test left running, frozen ones included. */
export async function endProcesses(): Promise<void> {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}
