#!/usr/bin/env node
import { runCli } from './cli.ts'
import { EXIT } from './exit-codes.ts'
import { processIo } from './io.ts'

// The CommonJS-friendly package has no top-level await; the command line keeps to the same rule.
void runCli(process.argv.slice(2), processIo()).then((code) => {
  process.exitCode = code
  // A second signal means now: what is still open is left as in a crash, which every store survives.
  if (code === EXIT.interrupted || code === EXIT.terminated) process.exit(code)
})
