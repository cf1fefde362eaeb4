import { parseCommandLine, type Request } from './args.ts'
import { printError } from './errors.ts'
import { EXIT, exitCodeOf } from './exit-codes.ts'
import { commandHelp, generalHelp } from './help.ts'
import type { Io } from './io.ts'
import { packageVersion } from './version.ts'

/** Asked for, help is the answer and goes to stdout; otherwise it stands in for a refusal. */
function showHelp(request: Extract<Request, { kind: 'help' }>, io: Io): number {
  const text = request.command ? commandHelp(request.command) : generalHelp()
  const output = request.asked ? io.stdout : io.stderr
  output.write(text)
  return request.asked ? EXIT.ok : EXIT.usage
}

async function answer(argv: readonly string[], io: Io): Promise<number> {
  const request = parseCommandLine(argv)
  if (request.kind === 'help') return showHelp(request, io)
  if (request.kind === 'version') {
    io.stdout.write(`${packageVersion()}\n`)
    return EXIT.ok
  }
  const run = await request.command.load()
  return run({ io, args: request.args, flags: request.flags })
}

/** Whether stack traces are wanted. Asked before the arguments are known to be right, so it only looks for the words. */
function isDebug(argv: readonly string[], io: Io): boolean {
  const at = argv.indexOf('--log-level')
  const flag = at >= 0 ? argv[at + 1] : argv.find((arg) => arg.startsWith('--log-level='))?.slice('--log-level='.length)
  return (flag ?? io.env.TIDEMARK_LOG_LEVEL) === 'debug'
}

/** Runs one command line. Never throws: what goes wrong is printed, and answered as an exit code. */
export async function runCli(argv: readonly string[], io: Io): Promise<number> {
  try {
    return await answer(argv, io)
  } catch (error) {
    printError(error, io, isDebug(argv, io))
    return exitCodeOf(error)
  }
}
