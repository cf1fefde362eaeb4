import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCodes } from '../src/errors.ts'
import { parseErrorsDoc, renderErrorsDoc } from '../test/house/errors-doc.ts'
import { root } from '../test/house/tree.ts'

/**
 * Prints `docs/errors.md` as the table in `src/errors.ts` wants it: a section a code, kind and next step from the table,
 * sentences kept from the page. `--write` writes it. Sections of codes that are gone are dropped.
 */
const path = join(root, 'docs/errors.md')
const page = renderErrorsDoc(errorCodes, parseErrorsDoc(existsSync(path) ? readFileSync(path, 'utf8') : '# Errors'))

if (process.argv.includes('--write')) {
  writeFileSync(path, page)
  console.log(`wrote ${path}`)
} else {
  process.stdout.write(page)
}
