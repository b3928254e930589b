/** A volume that the operator of the worlds on a cluster adds to the pods of its Jobs (chart value jobs.pods). */
export const JOB_VOLUME = { name: 'scratch', sizeLimit: '1Mi', mountPath: '/scratch' }
