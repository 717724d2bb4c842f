"""Figures that the pages state, each beside a peer: run a script from the repository's root.

clusters    k-means, mixtures and decoders beside scikit-learn, pycle and faiss
collector   a collector under load, and a tree of them
guarantees  how often stated errors hold
privacy     private sketches beside DPLloyd, diffprivlib and Google's; attacks on exact ones
sketching   rows to sketches: kernels, GPUs, files, engines, memory
speed       whole fits: one pass, growth with rows and columns, commit by commit
support     what the others share: reports and public tables
tables      public tables, numeric and mixed
tasks       regressions, components, classes, generators, questions: all that is no cluster
wide        rows of hundreds of columns
"""
