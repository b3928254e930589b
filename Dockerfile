# The hook service and the companion CLI in one image; which of them runs is the command's business.
# The newest line that calls itself LTS (process.release.lts): 26.10.0 did not yet.
ARG NODE_IMAGE=docker.io/library/node:24.21.0-bookworm-slim
ARG HELM_IMAGE=docker.io/alpine/helm:3.22.0

FROM ${HELM_IMAGE} AS helm

# What the image needs at run time. Types, maps and the builds for bundlers are never read there;
# licences stay. The optional packages are Node binaries for development: the base brings its own.
FROM ${NODE_IMAGE} AS modules
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional \
  && find node_modules -type d \( -name dist-es -o -name dist-types \) -prune -exec rm -rf {} + \
  && find node_modules -type f \( -name '*.map' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' \
    -o -name '*.md' ! -iname 'licen*' \) -exec rm {} +

FROM ${NODE_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=optional
COPY tsconfig.json tsconfig.build.json ./
COPY crds crds
COPY hooks hooks
COPY jobs jobs
COPY metacontroller metacontroller
RUN npm run build

FROM ${NODE_IMAGE}
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vec-operator" \
  org.opencontainers.image.description="Kubernetes operator for the Qdrant vector engine" \
  org.opencontainers.image.source="https://github.com/vec-operator/vec-operator" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
# The slim base knows no certificate authority, and helm brings none: without them it trusts no
# repository of charts.
COPY --from=helm /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=helm /usr/bin/helm /usr/local/bin/helm
WORKDIR /app
COPY --from=modules /src/package.json ./
COPY --from=modules /src/node_modules node_modules
ENV NODE_ENV=production NODE_OPTIONS=--use-system-ca
USER 1000:1000
EXPOSE 8080
ENTRYPOINT ["node"]
CMD ["metacontroller/serve.js"]
COPY --from=build /src/dist ./
