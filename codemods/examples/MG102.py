# %% changed in file
os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"

# %% left alone in file
os.environ["OMP_NUM_THREADS"] = "1"
