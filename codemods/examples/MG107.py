# %% beside run.sh
export OMP_NUM_THREADS=8
python train.py --epochs 20

# %% changed: --scripts
pass

# %% beside run.sh
python train.py --epochs 20

# %% told
pass

# %% beside run.sh
python other.py

# %% left alone
pass
