import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { publicSurface } from '../test/house/exports.ts'
import { root } from '../test/house/tree.ts'

/** Writes the public names as they are now into the list that pins them. Read the difference before committing it. */
const path = join(root, 'test/house/exports.json')
writeFileSync(path, `${JSON.stringify(publicSurface(), null, 2)}\n`)
console.log(`wrote ${path}`)
