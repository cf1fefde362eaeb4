import { readOptions, runBenches } from './benches.ts'

const options = readOptions(process.argv.slice(2))
const above = await runBenches(options, console.log)
for (const { name, value, atMost } of above) console.error(`above its limit: ${name}: ${value} > ${atMost}`)
if (options.check && above.length > 0) process.exitCode = 1
